"""fal's own client against the emulation. Its hosts are fixed, so they are replaced where it reads them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import fal_client
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fal_client import FalClientHTTPError, SyncClient

from sandbox.tests.conftest import KEY, Running, until

MODEL = "fal-ai/flux/dev"


@pytest.fixture
def fal(sandbox: Running, monkeypatch: Any) -> Iterator[SyncClient]:
    monkeypatch.setattr("fal_client.client.QUEUE_URL_FORMAT", f"{sandbox.provider}/fal/")
    yield SyncClient(key=KEY)


def test_a_request_is_followed_to_its_result(fal: SyncClient) -> None:
    handle = fal.submit(MODEL, {"prompt": "a cat", "seed": 7})
    assert isinstance(handle.status(), fal_client.Queued | fal_client.InProgress)
    until(lambda: isinstance(handle.status(), fal_client.Completed))
    assert handle.get() == {"prompt": "a cat", "seed": 7}
    assert fal.result(MODEL, handle.request_id) == {"prompt": "a cat", "seed": 7}


def test_a_request_that_failed_is_completed_with_an_error(fal: SyncClient, sandbox: Running) -> None:
    sandbox.faults(fail=1.0)
    handle = fal.submit(MODEL, {"prompt": "a cat"})
    done: Any = until(lambda: isinstance(s := handle.status(), fal_client.Completed) and s)
    assert done.error and done.error_type == "runner_error"


def test_a_request_is_cancelled_in_the_queue_and_not_when_it_is_completed(fal: SyncClient, sandbox: Running) -> None:
    handle = fal.submit(MODEL, {"prompt": "a cat"})
    until(lambda: isinstance(handle.status(), fal_client.Completed))
    with pytest.raises(FalClientHTTPError) as caught:
        handle.cancel()
    assert caught.value.status_code == 400
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    fal.submit(MODEL, {"prompt": "a cat"}).cancel()


def test_refusals_are_worded_as_the_client_expects(fal: SyncClient) -> None:
    with pytest.raises(FalClientHTTPError) as caught:
        SyncClient(key="wrong").submit(MODEL, {})
    assert caught.value.status_code == 401
    with pytest.raises(FalClientHTTPError) as caught:
        fal.status(MODEL, "never-was")
    assert caught.value.status_code == 404


def test_the_webhook_goes_to_the_requests_own_address_and_fits_the_public_key(
    fal: SyncClient, sandbox: Running
) -> None:
    url = f"{sandbox.receiver}/ok/fal?ref=token-1"
    handle = fal.submit(MODEL, {"prompt": "a cat"}, webhook_url=url)
    (entry,) = until(lambda: sandbox.journal(path="/ok/fal"))
    headers = {name.lower(): value for name, value in dict(entry["headers"]).items()}
    names = ("request-id", "user-id", "timestamp")
    parts = [headers[f"x-fal-webhook-{name}"] for name in names]
    digest = hashlib.sha256(entry["body"].encode()).hexdigest()
    (key,) = requests.get(f"{sandbox.provider}/fal/.well-known/jwks.json", timeout=5).json()["keys"]
    public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
    signature = bytes.fromhex(headers["x-fal-webhook-signature"])
    public.verify(signature, "\n".join([*parts, digest]).encode())  # raises where it does not fit
    assert parts[0] == handle.request_id
