"""The doctor's door: its own signed event gets the proof, and a stranger gets a 404 whatever he sends."""

import pytest
from cryptography.fernet import Fernet
from django.test import Client
from django.urls import reverse
from standardwebhooks import Webhook

from console.health import trial
from console.health.door import MOST_BYTES
from delivery.models import Endpoint
from delivery.tests.engine.conftest import LOOPBACK
from kernel import clock

pytestmark = pytest.mark.django_db
BODY = b'{"type":"endpoint.test"}'


@pytest.fixture
def nonce(settings):
    settings.DELIVERY_ALLOWED_NETWORKS = LOOPBACK
    name = trial.new_nonce()
    trial.begin(name, "http://127.0.0.1:2/", actor="doctor")
    return name


def signed(secret, body=BODY):
    """By the reference library, as any sender would."""
    now = clock.now()
    signature = Webhook(secret).sign("evt_1", now, body.decode())
    return {"webhook-id": "evt_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


def call(nonce, headers=None, body=BODY):
    client = Client(enforce_csrf_checks=True, headers=headers or {})
    return client.post(reverse("doctor-door", args=[nonce]), body, content_type="application/json")


def test_a_signed_event_gets_the_proof(nonce):
    secret = Endpoint.objects.get().secret
    answer = call(nonce, signed(secret))
    assert (answer.status_code, answer.content.decode()) == (200, trial.proof_of(secret, nonce))


def test_a_wrong_or_missing_signature_gets_none(nonce):
    secret = Endpoint.objects.get().secret
    other = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    for headers, body in (({}, BODY), (signed(other), BODY), (signed(secret), BODY + b" ")):
        answer = call(nonce, headers, body)
        assert (answer.status_code, answer.content) == (401, b"")


def test_a_stranger_gets_a_404_and_nothing_more(nonce):
    headers = signed(Endpoint.objects.get().secret)
    assert [call(name, headers).status_code for name in ("0" * 32, "acknowledge", f"{nonce}0")] == [404] * 3
    assert Client().get(reverse("doctor-door", args=[nonce])).status_code == 404
    trial.remove_all(actor="doctor")
    assert call(nonce, headers).status_code == 404


def test_a_body_beyond_the_cap_is_refused_alike_whether_there_is_a_trial_or_not(nonce, settings):
    large = b" " * (MOST_BYTES + 1)
    assert settings.BODY_CAPS["/doctor/"] == MOST_BYTES
    answers = [call(name, {}, large) for name in (nonce, "0" * 32)]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert answers[0].content == answers[1].content


def test_a_process_with_other_keys_says_so(nonce, settings):
    headers = signed(Endpoint.objects.get().secret)
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    assert call(nonce, headers).status_code == 409
