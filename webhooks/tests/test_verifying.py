"""Who sent a call, at the door: from where, by whose keys of today, at which address; and what challenges get."""

import base64
import hashlib
import hmac
import ipaddress
import json
import time

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.test import Client

from kernel.network.openings import parse_openings
from tasks import accounts
from tasks.models import ProviderAccount
from tasks.providers.fal import Fal, keys
from tasks.providers.sandbox import SandboxProvider
from tasks.tests.conftest import KEY, Sandbox, sandbox_process  # noqa: F401
from webhooks import checks
from webhooks.models import InboundEvent, Refusal
from webhooks.schemes.callers import may_call
from webhooks.tests.conftest import SECRET

DONE = {"job_id": "j1", "status": "completed"}
FROM_DOCUMENTS = "203.0.113.7"


def options(name: str = "sandbox", **wanted) -> None:
    accounts.available()  # made, where the environment declares it
    ProviderAccount.objects.filter(name=name).update(options=wanted, version=accounts.reading.new_version())


# --- from where --------------------------------------------------------------------------------------------------


def test_a_genuine_call_from_elsewhere_is_refused_where_the_account_has_a_list(post, running):
    running()
    options(callback_networks=["203.0.113.0/24", "2001:db8::/32"])
    answer = post(DONE)
    assert (answer.status_code, answer.json()["reason"]) == (401, Refusal.ADDRESS_NOT_ALLOWED)
    assert InboundEvent.objects.get().verdict_reason == Refusal.ADDRESS_NOT_ALLOWED


def test_the_right_address_alone_opens_nothing(post, running, settings):
    running()
    settings.TRUSTED_PROXIES = parse_networks("127.0.0.1/32")
    options(callback_networks=["203.0.113.0/24"])
    refused = post(DONE, webhook_signature="v1,AAAA", x_forwarded_for=FROM_DOCUMENTS)
    assert (refused.status_code, refused.json()["reason"]) == (401, Refusal.SIGNATURE_WRONG)
    assert post(DONE, x_forwarded_for=FROM_DOCUMENTS).status_code == 200


def test_an_address_that_only_the_caller_names_is_not_believed(post, running, settings):
    running()
    settings.TRUSTED_PROXIES = []
    options(callback_networks=["203.0.113.0/24"])
    assert post(DONE, x_forwarded_for=FROM_DOCUMENTS).status_code == 401


def parse_networks(text: str):
    return [ipaddress.ip_network(text)]


def test_a_list_with_a_slip_of_the_pen_lets_nobody_in_and_is_told(db):
    options(callback_networks=["203.0.113.0/24", "everywhere"])
    assert "no network" in checks.secret_faults()["sandbox"][0]
    assert not may_call(FROM_DOCUMENTS, ("203.0.113.0/24", "everywhere"))
    assert may_call(FROM_DOCUMENTS, ()) and may_call(FROM_DOCUMENTS, ("203.0.113.7",))
    assert not may_call("", ("0.0.0.0/0",))


# --- keys that the provider gives --------------------------------------------------------------------------------


@pytest.fixture
def fal(db, sandbox_process: Sandbox, settings) -> Sandbox:  # noqa: F811
    """An account at fal whose public keys are those of the sandbox."""
    settings.PROVIDER_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    sandbox_process.reset()
    jwks = f"{sandbox_process.url}/fal/.well-known/jwks.json"
    ProviderAccount.objects.create(
        name="fal",
        adapter="fal",
        base_url=f"{sandbox_process.url}/fal",
        api_key=KEY,
        options={"jwks_url": jwks, "model": "fal-ai/flux/dev"},
    )
    accounts.reading.forget("fal")
    return sandbox_process


def told(private: Ed25519PrivateKey, **said):
    body = json.dumps({"request_id": "r1", "status": "OK", "payload": {}, **said}).encode()
    stamp = str(int(time.time()))
    message = "\n".join(("r1", "u1", stamp, hashlib.sha256(body).hexdigest())).encode()
    headers = {
        "x-fal-webhook-request-id": "r1",
        "x-fal-webhook-user-id": "u1",
        "x-fal-webhook-timestamp": stamp,
        "x-fal-webhook-signature": private.sign(message).hex(),
    }
    return Client().post("/webhooks/fal/", body, content_type="application/json", headers=headers)


def test_the_keys_are_the_providers_and_nobody_elses_signature_counts(fal):
    provider = accounts.get("fal")
    rows = requests.get(f"{fal.url}/fal/.well-known/jwks.json", timeout=5).json()["keys"]
    assert isinstance(provider, Fal) and provider.secrets() == [row["x"] for row in rows]
    assert checks.secret_faults() == {}
    assert told(Ed25519PrivateKey.generate()).status_code == 401


def test_a_new_key_of_the_provider_is_fetched_when_one_does_not_fit(fal, monkeypatch):
    provider = accounts.get("fal")
    private = Ed25519PrivateKey.generate()
    fetched: list[str] = []
    first = provider.secrets()

    def ask(_self) -> list[str]:
        fetched.append("")
        return [*first, x_of(private)]

    monkeypatch.setattr(keys.Keys, "_asked", ask)
    assert told(private).status_code == 401  # the keys were fetched a moment ago
    assert fetched == []
    provider._keys._asked_at -= keys.ASKED_SECONDS
    assert told(private).json()["results"][0]["reason"] == "task_not_found"
    for _ in range(3):
        assert told(Ed25519PrivateKey.generate()).status_code == 401
    assert len(fetched) == 1
    assert told(private).status_code == 200


def x_of(private: Ed25519PrivateKey) -> str:
    return base64.urlsafe_b64encode(private.public_key().public_bytes_raw()).decode().rstrip("=")


def test_while_no_keys_can_be_had_the_provider_is_asked_to_send_again(fal):
    options("fal", jwks_url="http://127.0.0.1:9/jwks.json")
    answer = told(Ed25519PrivateKey.generate())
    assert (answer.status_code, answer.json()["reason"]) == (503, Refusal.SECRETS_UNAVAILABLE)


# --- at which address --------------------------------------------------------------------------------------------


def test_a_signed_address_is_the_public_one(post, running, settings, monkeypatch):
    running()
    monkeypatch.setattr(SandboxProvider, "scheme", "twilio")
    settings.PUBLIC_BASE_URL = "https://jobs.example"
    body = json.dumps(DONE).encode()
    path = f"/webhooks/sandbox/?bodySHA256={hashlib.sha256(body).hexdigest()}"
    digest = hmac.new(SECRET.encode(), f"https://jobs.example{path}".encode(), hashlib.sha1).digest()
    signature = base64.b64encode(digest).decode()
    assert post(body, path=path, x_twilio_signature=signature).status_code == 200
    assert post(body, path=f"{path}&x=1", x_twilio_signature=signature).status_code == 401


# --- challenges --------------------------------------------------------------------------------------------------


def slack(body: bytes, secret: str = SECRET):
    stamp = str(int(time.time()))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-slack-signature": f"v0={digest}", "x-slack-request-timestamp": stamp}
    return Client().post("/webhooks/sandbox/", body, content_type="application/json", headers=headers)


def test_slacks_challenge_is_answered_to_slack_alone_and_is_no_event(db, monkeypatch):
    monkeypatch.setattr(SandboxProvider, "scheme", "slack")
    body = b'{"token": "t", "challenge": "3eZbrw1aB_1", "type": "url_verification"}'
    answer = slack(body)
    assert (answer.status_code, answer.json()) == (200, {"challenge": "3eZbrw1aB_1"})
    assert InboundEvent.objects.count() == 0
    assert slack(body, "another").status_code == 401
    assert slack(b'{"challenge": "<script>", "type": "url_verification"}').json().keys() != {"challenge"}


def hub(**query):
    names = {f"hub.{name}": value for name, value in query.items()}
    return Client().get("/webhooks/sandbox/", names)


def test_a_visit_with_our_verify_token_gets_its_challenge_back(db):
    assert hub(mode="subscribe", verify_token="v1", challenge="1158").status_code == 405
    options(verify_token="v1")
    answer = hub(mode="subscribe", verify_token="v1", challenge="1158")
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, b"1158", "text/plain; charset=utf-8")
    assert answer["X-Content-Type-Options"] == "nosniff"
    for query in (
        {"mode": "subscribe", "verify_token": "v2", "challenge": "1158"},
        {"mode": "subscribe", "verify_token": "v1", "challenge": "<script>"},
        {"mode": "unsubscribe", "verify_token": "v1", "challenge": "1158"},
        {"mode": "subscribe", "challenge": "1158"},
    ):
        assert hub(**query).status_code == 405
