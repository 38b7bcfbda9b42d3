"""Replicate's own client against the emulation: create, wait, list, cancel, and its webhook verified by the client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replicate.client import Client
from replicate.exceptions import ReplicateError
from replicate.pagination import paginate
from replicate.webhook import InvalidSignatureError, Webhooks

from sandbox.tests.emulated.conftest import KEY, Process, body

MODEL = "meta/meta-llama-3-8b-instruct"
PROMPT = {"prompt": 'Score it as {"score": …}.\n\n{"business": {"name": "Bar Mleczny"}}'}


@pytest.fixture
def client(emulated: Process, monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client(KEY, base_url=f"{emulated.provider}/replicate")
    client.poll_interval = 0.02
    return client


def test_a_prediction_of_a_model_is_made_and_waited_for(client: Client) -> None:
    prediction = client.predictions.create(model=MODEL, input=PROMPT)
    assert prediction.status in ("starting", "processing")
    prediction.wait()
    assert (prediction.status, prediction.model) == ("succeeded", MODEL) and prediction.completed_at
    assert 0 <= json.loads("".join(prediction.output))["score"] <= 100


def test_a_prediction_of_a_version_gives_back_any_other_input(client: Client) -> None:
    prediction = client.predictions.create(version="5c7d5dc6", input={"text": "Alice"})
    prediction.wait()
    assert client.predictions.get(prediction.id).output == {"text": "Alice"}


def test_predictions_are_listed_page_after_page(client: Client) -> None:
    names = {client.predictions.create(version="5c7d5dc6", input={"n": n}).id for n in range(101)}
    pages = list(paginate(client.predictions.list))
    assert [len(page) for page in pages] == [100, 1]
    assert {prediction.id for page in pages for prediction in page} == names


def test_a_prediction_is_cancelled_and_a_finished_one_stays_finished(client: Client, emulated: Process) -> None:
    done = client.predictions.create(version="5c7d5dc6", input={"n": 1})
    done.wait()
    done.cancel()
    assert done.status == "succeeded"
    emulated.faults(min_ms=5000, max_ms=5000)
    prediction = client.predictions.create(version="5c7d5dc6", input={"n": 2})
    prediction.cancel()
    assert prediction.status == "canceled"


def test_the_webhook_is_what_the_clients_own_check_takes_and_one_bit_less_is_not(
    client: Client, emulated: Process
) -> None:
    hook = {"webhook": f"{emulated.receiver}/ok/replicate", "webhook_events_filter": ["completed"]}
    prediction = client.predictions.create(version="5c7d5dc6", input={"text": "Żółć"}, **hook)
    (entry,) = emulated.told("/ok/replicate")
    assert (body(entry)["id"], body(entry)["status"]) == (prediction.id, "succeeded")
    secret = client.webhooks.default.secret()
    Webhooks.validate(headers=entry["headers"], body=entry["body"], secret=secret, tolerance=300)
    with pytest.raises(InvalidSignatureError):
        Webhooks.validate(headers=entry["headers"], body=entry["body"] + " ", secret=secret)


def test_after_its_hour_the_output_is_gone(client: Client, emulated: Process) -> None:
    prediction = client.predictions.create(version="5c7d5dc6", input={"text": "Alice"})
    prediction.wait()
    emulated.expire("replicate", prediction.id)
    prediction.reload()
    assert (prediction.status, prediction.output) == ("succeeded", None)


@pytest.mark.parametrize(
    ("params", "status"), [({"model": "nobody/knows", "input": PROMPT}, 404), ({"version": "5c7d", "input": {}}, 422)]
)
def test_refusals_are_problems_with_their_status(client: Client, params: Any, status: int) -> None:
    with pytest.raises(ReplicateError) as caught:
        client.predictions.create(**params)
    assert caught.value.status == status and caught.value.detail


def test_a_wrong_token_is_refused(emulated: Process) -> None:
    with pytest.raises(ReplicateError) as caught:
        Client("wrong", base_url=f"{emulated.provider}/replicate").predictions.list()
    assert caught.value.status == 401
