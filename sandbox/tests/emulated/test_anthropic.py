"""Anthropic's own client against the emulation: start, read, list, page, cancel, results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError, AuthenticationError, NotFoundError

from sandbox.tests.conftest import KEY, Running, until

SCORE = 'Judge it: {"score": a number}\n\n{"business": {"name": "Bar"}}'


def client(sandbox: Running, key: str = KEY) -> Anthropic:
    return Anthropic(api_key=key, base_url=f"{sandbox.provider}/anthropic", max_retries=0)


@pytest.fixture
def anthropic(sandbox: Running) -> Anthropic:
    return client(sandbox)


def batch(anthropic: Anthropic, *models: str) -> Any:
    params: list[Any] = [
        {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": SCORE}]} for model in models
    ]
    requests: list[Any] = [{"custom_id": f"item-{n}", "params": one} for n, one in enumerate(params)]
    return anthropic.messages.batches.create(requests=requests)


def ended(anthropic: Anthropic, name: str) -> Any:
    return until(lambda: (b := anthropic.messages.batches.retrieve(name)).processing_status == "ended" and b)


def test_a_batch_brings_the_fate_of_each_of_its_items(anthropic: Anthropic) -> None:
    begun = batch(anthropic, "claude-x", "no-such-model", "too-slow")
    assert begun.processing_status == "in_progress" and begun.results_url is None
    assert (begun.request_counts.processing, begun.request_counts.succeeded) == (3, 0)
    done = ended(anthropic, begun.id)
    counts = done.request_counts
    assert (counts.succeeded, counts.errored, counts.expired, counts.canceled, counts.processing) == (1, 1, 1, 0, 0)
    found = {one.custom_id: one.result for one in anthropic.messages.batches.results(begun.id)}
    assert {name: result.type for name, result in found.items()} == {
        "item-0": "succeeded",
        "item-1": "errored",
        "item-2": "expired",
    }
    answer: Any = found["item-0"]
    assert 0 <= json.loads(answer.message.content[0].text)["score"] <= 100


def test_a_batch_is_cancelled_and_its_items_say_so(sandbox: Running, anthropic: Anthropic) -> None:
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    begun = batch(anthropic, "claude-x")
    assert anthropic.messages.batches.cancel(begun.id).cancel_initiated_at
    ended(anthropic, begun.id)
    assert [one.result.type for one in anthropic.messages.batches.results(begun.id)] == ["canceled"]
    with pytest.raises(APIStatusError) as caught:
        anthropic.messages.batches.cancel(begun.id)
    assert caught.value.status_code == 400


def test_batches_are_listed_newest_first_page_by_page(anthropic: Anthropic) -> None:
    ids = [batch(anthropic, "claude-x").id for _ in range(5)]
    assert [one.id for one in anthropic.messages.batches.list(limit=2)] == ids[::-1]


def test_refusals_are_worded_as_the_client_expects(sandbox: Running, anthropic: Anthropic) -> None:
    with pytest.raises(AuthenticationError):
        batch(client(sandbox, "wrong"), "claude-x")
    with pytest.raises(NotFoundError):
        anthropic.messages.batches.retrieve("msgbatch_never_was")
    with pytest.raises(APIStatusError) as caught:
        anthropic.messages.batches.create(requests=[])
    assert (caught.value.status_code, caught.value.type) == (400, "invalid_request_error")
