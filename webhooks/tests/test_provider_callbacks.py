"""Callbacks of real providers, signed as each of them signs, through the public door: taken, and refused with one bit
changed. The bodies are those that their documents show."""

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from standardwebhooks import Webhook

import tasks.providers
from tasks.models import ExternalJob, ProviderAccount
from tasks.states import JobState, State
from webhooks.models import InboundEvent
from webhooks.tests.conftest import SECRET

pytestmark = pytest.mark.django_db
KEY = "sk_api"
TOKEN = "a-long-token-of-the-account"
FIXTURES = Path(tasks.providers.__file__).parent


def body_of(adapter: str, name: str) -> bytes:
    return (FIXTURES / adapter / "tests" / "fixtures" / name).read_bytes()


def standard(body: bytes) -> dict[str, str]:
    now = timezone.now()
    signature = Webhook(SECRET).sign("msg_1", now, body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


def by_key(body: bytes) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()}"}


def bearer(_body: bytes) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKEN}"}


CALLS: list[tuple[str, str, str, str, Callable[[bytes], dict[str, str]], dict[str, Any]]] = [
    ("apify", "run_succeeded.json", "HG7ML7M8z78YcAPEB", TOKEN, bearer, {"actor": "compass/crawler-google-places"}),
    ("outscraper", "finished.json", "a-44cab432-54db-4d56-b81c-f97b51bee451", "", by_key, {}),
    ("replicate", "succeeded.json", "ufawqhfynnddngldkgtslldrkq", SECRET, standard, {"model": "meta/llama"}),
    ("http", "completed.json", "execution-231", SECRET, standard, {}),
    ("http", "completed.json", "execution-231", TOKEN, bearer, {"signature": "bearer"}),
]


@pytest.fixture
def job(running: Any) -> Callable[..., ExternalJob]:
    def make(adapter: str, job_id: str, secret: str, options: dict[str, Any]) -> ExternalJob:
        ProviderAccount.objects.create(
            name="ours",
            adapter=adapter,
            base_url="https://n8n.example/x",
            api_key=KEY,
            webhook_secret=secret,
            options=options,
        )
        task = running(job_id)
        ExternalJob.objects.filter(task=task).update(provider="ours")
        return task.jobs.get()

    return make


def sent(body: bytes, headers: dict[str, str], path: str = "/webhooks/map-search/ours/?ref=1") -> Any:
    shown = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return Client(enforce_csrf_checks=True).post(path, body, content_type="application/json", **shown)


@pytest.mark.parametrize(("adapter", "name", "job_id", "secret", "sign", "options"), CALLS)
def test_a_genuine_callback_is_taken(
    job: Any, adapter: str, name: str, job_id: str, secret: str, sign: Any, options: dict[str, Any]
) -> None:
    row, body = job(adapter, job_id, secret, options), body_of(adapter, name)
    answer = sent(body, sign(body))
    assert (answer.status_code, answer.json()["status"]) == (200, "accepted"), answer.content
    row.refresh_from_db()
    assert row.state == JobState.SUCCEEDED and row.task.state == State.FETCHING and row.finished_by == "webhook"


@pytest.mark.parametrize(("adapter", "name", "job_id", "secret", "sign", "options"), CALLS)
def test_with_one_bit_changed_it_is_refused(
    job: Any, adapter: str, name: str, job_id: str, secret: str, sign: Any, options: dict[str, Any]
) -> None:
    row, body = job(adapter, job_id, secret, options), body_of(adapter, name)
    headers = sign(body)
    if sign is bearer:  # nothing is signed: the token is all there is to change
        headers = {"authorization": headers["authorization"][:-1] + "u"}
        answer = sent(body, headers)
    else:
        answer = sent(body[:-3] + bytes([body[-3] ^ 1]) + body[-2:], headers)
    assert (answer.status_code, answer.json()["reason"]) == (401, "signature_wrong")
    row.refresh_from_db()
    assert row.state == JobState.SUBMITTED and not InboundEvent.objects.filter(verdict="verified").exists()


def test_a_word_that_nobody_knows_is_stored_and_shown_and_ends_nothing(job: Any) -> None:
    row = job("replicate", "ufawqhfynnddngldkgtslldrkq", SECRET, {"model": "meta/llama"})
    body = json.dumps({**json.loads(body_of("replicate", "succeeded.json")), "status": "hibernating"}).encode()
    answer = sent(body, standard(body))
    assert answer.json()["results"] == [
        {"job_id": "ufawqhfynnddngldkgtslldrkq", "status": "ignored", "reason": "unknown_status"}
    ]
    row.refresh_from_db()
    assert (row.state, row.provider_status) == (JobState.SUBMITTED, "hibernating")


def test_an_unknown_way_of_signing_refuses_every_call(job: Any) -> None:
    job("http", "execution-231", SECRET, {"signature": "rot13"})
    body = body_of("http", "completed.json")
    assert sent(body, standard(body)).json()["reason"] == "unknown_scheme"
