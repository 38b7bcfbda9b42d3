"""The adapter of fal: conformance against the emulation, its public keys, and what its words mean."""

import json
from typing import Any

import pytest

from kernel.network.openings import parse_openings
from tasks.providers.base import (
    Account,
    JobRef,
    NewJob,
    NotThere,
    ProviderCall,
    ProviderDenied,
    ProviderUnavailable,
    ProviderUpdate,
    Unparseable,
)
from tasks.providers.fal import Fal, keys, payloads
from tasks.providers.fal.keys import Keys
from tasks.states import JobStatus
from tasks.tests.conftest import KEY, Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.drive import until_true
from tasks.tests.provider_conformance import ProviderConformance

MODEL = "fal-ai/flux/dev"
LOOPBACK = parse_openings("127.0.0.0/8")


def account(url: str, key: str = KEY) -> Account:
    options = {"model": MODEL, "jwks_url": f"{url}/.well-known/jwks.json"}
    return Account("fal", url, key, (), options, LOOPBACK)


@pytest.fixture
def provider(sandbox: Sandbox) -> Fal:  # noqa: F811
    return Fal(account(f"{sandbox.url}/fal"))


# As fal's documents show them.
OK = {
    "request_id": "123e4567-e89b-12d3-a456-426614174000",
    "gateway_request_id": "another-one-after-a-retry",
    "status": "OK",
    "payload": {
        "images": [{"url": "https://url.to/image.png", "content_type": "image/png"}],
        "seed": 196619188014358660,
    },
}
DETAIL = [{"loc": ["body", "prompt"], "msg": "field required", "type": "value_error.missing"}]
REFUSED = {**OK, "status": "ERROR", "error": "Invalid status code: 422", "payload": {"detail": DETAIL}}
WHY = "Invalid status code: 422. body.prompt: field required"


class TestFal(ProviderConformance):
    kind = "pictures"
    input = {"prompt": "a cat"}
    bad_input = None
    callbacks = [
        (json.dumps(OK).encode(), [ProviderUpdate(OK["request_id"], status=JobStatus.SUCCEEDED, raw_status="OK")]),
        (
            json.dumps(REFUSED).encode(),
            [ProviderUpdate(OK["request_id"], "", JobStatus.FAILED, "ERROR", None, "", WHY, is_permanent=True)],
        ),
    ]

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> Fal:  # noqa: F811
        return Fal(account(f"{sandbox.url}/fal", "wrong"))

    @pytest.fixture
    def dead_provider(self) -> Fal:
        return Fal(account("http://127.0.0.1:9"))


def start(provider: Fal, given: dict[str, Any], url: str = "") -> JobRef:
    job = provider.start("pictures", NewJob("r", given), ProviderCall(url, options={"model": MODEL}))
    return JobRef(job.job_id, "pictures", options={"model": MODEL})


def test_every_documented_status_has_its_meaning() -> None:
    """Those that fal's own client knows; it raises on any other."""
    import inspect

    from fal_client.client import _BaseRequestHandle

    source = inspect.getsource(_BaseRequestHandle._parse_status)
    assert {word for word in payloads.STATUSES if f'"{word}"' in source} == set(payloads.STATUSES)
    assert source.count('data["status"] ==') == len(payloads.STATUSES)


@pytest.mark.parametrize(
    ("said", "status", "is_permanent"),
    [
        ({"status": "COMPLETED"}, JobStatus.SUCCEEDED, False),
        ({"status": "COMPLETED", "error": None}, JobStatus.SUCCEEDED, False),
        ({"status": "COMPLETED", "error": "Runner died", "error_type": "runner_error"}, JobStatus.FAILED, False),
        ({"status": "COMPLETED", "error": "Invalid status code: 422"}, JobStatus.FAILED, True),
        ({"status": "IN_QUEUE", "queue_position": 3}, JobStatus.QUEUED, False),
        ({"status": "CANCELED"}, JobStatus.UNKNOWN, False),
        ({}, JobStatus.UNKNOWN, False),
    ],
)
def test_completed_is_success_only_without_an_error(said: Any, status: JobStatus, is_permanent: bool) -> None:
    update = payloads.update("job", said)
    assert (update.status, update.is_permanent) == (status, is_permanent)


@pytest.mark.parametrize("body", [b'{"status": "OK"}', b'{"request_id": "r"}', b'{"request_id": "", "status": "OK"}'])
def test_an_event_without_a_name_or_a_status_is_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        payloads.parse(body)


def test_the_input_is_passed_on_and_the_answer_handed_out_as_it_is(provider: Fal) -> None:
    job = start(provider, {"prompt": "a cat", "seed": 7})
    until_true(lambda: provider.status(job).status == JobStatus.SUCCEEDED)
    assert provider.result(job).value == {"prompt": "a cat", "seed": 7}


def test_a_result_that_is_not_ready_is_not_there_yet(provider: Fal, sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    job = start(provider, {"prompt": "a cat"})
    with pytest.raises(NotThere):
        provider.result(job)


def test_a_job_in_the_queue_is_cancelled_and_a_running_one_is_asked_to_stop(
    provider: Fal,
    sandbox: Sandbox,  # noqa: F811
) -> None:
    sandbox.faults(min_ms=4000, max_ms=4000)  # in the queue for the first 0.6 s
    assert provider.cancel(start(provider, {"prompt": "a cat"})).status == JobStatus.CANCELLED
    job = start(provider, {"prompt": "a cat"})
    until_true(lambda: provider.status(job).status == JobStatus.RUNNING)
    update = provider.cancel(job)
    assert (update.status, update.raw_status) == (JobStatus.RUNNING, "CANCELLATION_REQUESTED")


def test_a_job_that_failed_says_why(provider: Fal, sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(fail=1.0)
    job = start(provider, {"prompt": "a cat"})
    until_true(lambda: provider.status(job).status == JobStatus.FAILED)
    update = provider.status(job)
    assert (update.raw_status, update.error_code) == ("COMPLETED", "runner_error") and update.error_text


@pytest.mark.parametrize("model", [None, "", "flux", "../../v1/x", "fal-ai/flux?x=y", "fal-ai//dev", "fal-ai/.."])
def test_without_a_usable_model_nothing_is_started(sandbox: Sandbox, model: Any) -> None:  # noqa: F811
    provider = Fal(account(f"{sandbox.url}/fal"))
    with pytest.raises(ProviderDenied):
        provider.start("pictures", NewJob("r", {}), ProviderCall(options={"model": model}))


def test_requests_lie_below_the_app_and_not_below_the_models_whole_path() -> None:
    provider = Fal(account("http://127.0.0.1:9"))
    for model, app in (("fal-ai/flux/dev", "fal-ai/flux"), ("workflows/me/flow", "workflows/me/flow")):
        assert provider._path(JobRef("r 1", options={"model": model})) == f"/{app}/requests/r%201"


# --- keys --------------------------------------------------------------------------------------------------------


def jwks(sandbox: Sandbox) -> Keys:  # noqa: F811
    return Keys(f"{sandbox.url}/fal/.well-known/jwks.json", LOOPBACK)


def test_keys_are_fetched_once_and_then_kept(sandbox: Sandbox, monkeypatch: Any) -> None:  # noqa: F811
    found = jwks(sandbox)
    first = found.current()
    assert len(first) == 1 and len(first[0]) == 43
    monkeypatch.setattr(found, "_url", "http://127.0.0.1:9")
    assert found.current() == first


def test_a_rotated_key_is_asked_for_once_a_minute_at_most(sandbox: Sandbox, monkeypatch: Any) -> None:  # noqa: F811
    import requests

    found = jwks(sandbox)
    first = found.current()
    requests.post(f"{sandbox.url}/fal/_rotate", timeout=5)
    assert found.renewed() == first  # asked a moment ago
    found._asked_at -= keys.ASKED_SECONDS
    second = found.renewed()
    assert second != first and found.current() == second


def test_keys_that_cannot_be_had_are_told_and_those_that_are_there_serve_for_a_day(
    sandbox: Sandbox,  # noqa: F811
    monkeypatch: Any,
) -> None:
    with pytest.raises(ProviderUnavailable):
        Keys("http://127.0.0.1:9", LOOPBACK).current()
    found = jwks(sandbox)
    kept = found.current()
    monkeypatch.setattr(found, "_url", "http://127.0.0.1:9")
    found._fetched_at -= keys.RENEWED_SECONDS + 1
    found._asked_at -= keys.ASKED_SECONDS
    assert found.current() == kept
    found._fetched_at -= keys.KEPT_SECONDS
    with pytest.raises(ProviderUnavailable):
        found.current()
    assert found.renewed() == []


def test_only_ed25519_keys_count() -> None:
    rows = [
        {"kty": "RSA", "x": "a"},
        {"kty": "OKP", "crv": "X25519", "x": "b"},
        {"kty": "OKP", "crv": "Ed25519", "x": "c"},
    ]
    assert keys.read({"keys": [*rows, 7, {"kty": "OKP", "x": 1}]}) == ["c"]
    assert keys.read({"keys": {}}) == keys.read([]) == []
