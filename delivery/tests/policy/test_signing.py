"""Signatures that the independent library accepts, keys in every form, and a verifier that never raises."""

import base64
import json
import os
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from delivery.policy.signing import (
    SecretInvalid,
    load_key,
    new_secret,
    proves,
    public_key_of,
    scheme_of,
    sign,
    verify,
)

BODY = '{"type":"task.succeeded","data":{"city":"Łódź"}}'.encode()


def now():
    return int(datetime.now(UTC).timestamp())


def headers(signed, message_id="msg_1", timestamp=None):
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp or now()),
        "webhook-signature": signed.signature,
    }


def test_the_library_verifies_what_we_sign():
    secret, _ = new_secret()
    signed = sign([secret], "msg_1", now(), BODY)
    assert Webhook(secret).verify(BODY.decode(), headers(signed)) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY.decode() + " ", headers(signed))


def test_we_verify_what_the_library_signs():
    secret, _ = new_secret()
    moment = datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", moment, BODY.decode())
    timestamp = str(int(moment.timestamp()))
    assert verify([secret], "msg_1", timestamp, signature, BODY, now=now()) == load_key(secret).key_id


def test_rotation_both_sign_and_either_verifies():
    (old, _), (new, _) = new_secret(), new_secret()
    signed = sign([new, old], "msg_1", now(), BODY)
    assert signed.signature.count(" ") == 1
    assert signed.key_ids == f"{load_key(new).key_id},{load_key(old).key_id}"
    for secret in (old, new):
        Webhook(secret).verify(BODY.decode(), headers(signed))
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()[0]).verify(BODY.decode(), headers(signed))


def test_mixed_schemes_and_the_library_still_finds_its_own():
    secret, _ = new_secret()
    private, public = new_secret("v1a")
    timestamp = now()
    signed = sign([private, secret], "msg_1", timestamp, BODY)
    Webhook(secret).verify(BODY.decode(), headers(signed, timestamp=timestamp))
    assert proves([public], "msg_1", timestamp, signed.signature, BODY) == load_key(public).key_id


def test_v1a_by_an_independent_implementation():
    private, public = new_secret("v1a")
    timestamp = now()
    signed = sign([private], "msg_1", timestamp, BODY)
    scheme, _, text = signed.signature.partition(",")
    raw = base64.b64decode(public.removeprefix("whpk_"))
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(text), b"msg_1.%d." % timestamp + BODY)
    assert scheme == "v1a"
    assert public_key_of(private) == public
    assert verify([public], "msg_1", str(timestamp), signed.signature, BODY, now=timestamp) == signed.key_ids
    assert not verify([public], "msg_1", str(timestamp), signed.signature, BODY + b" ", now=timestamp)


def test_key_forms():
    raw = os.urandom(24)
    for text in (base64.b64encode(raw).decode(), base64.b64encode(raw).decode().rstrip("=")):
        assert load_key("whsec_" + text).hmac_key == raw
    seed = Ed25519PrivateKey.generate().private_bytes_raw()
    assert scheme_of("whsk_" + base64.b64encode(seed).decode()) == "v1a"
    assert "whsec" not in repr(load_key(new_secret()[0]))


@pytest.mark.parametrize(
    ("secret", "code"),
    [
        ("", "prefix"),
        ("secret", "prefix"),
        ("whsec_", "length"),
        ("whsec_" + base64.b64encode(b"short").decode(), "length"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), "length"),
        ("whsec_not base64!", "base64"),
        ("whsec_ünïcode", "base64"),
        ("whsk_" + base64.b64encode(b"x" * 33).decode(), "length"),
        ("whsk_" + base64.b64encode(b"x" * 64).decode(), "mismatch"),
        ("whpk_" + base64.b64encode(b"x" * 31).decode(), "length"),
    ],
)
def test_bad_secrets(secret, code):
    with pytest.raises(SecretInvalid) as caught:
        load_key(secret)
    assert caught.value.code == code
    assert secret[6:] not in caught.value.detail or not secret[6:]


def test_a_public_key_cannot_sign():
    with pytest.raises(SecretInvalid):
        sign([new_secret("v1a")[1]], "msg_1", now(), BODY)


def test_tolerance_both_ways():
    secret, _ = new_secret()
    signed = sign([secret], "msg_1", 1000, BODY)
    for moment, good in ((1300, True), (1301, False), (700, True), (699, False)):
        assert bool(verify([secret], "msg_1", "1000", signed.signature, BODY, now=moment)) is good
    assert proves([secret], "msg_1", 1000, signed.signature, BODY)


@given(st.text(max_size=80), st.text(max_size=20), st.text(max_size=20))
def test_strangers_never_make_it_raise(signatures, timestamp, message_id):
    assert verify([SECRET, PUBLIC], message_id, timestamp, signatures, b"", now=0) == ""
    assert verify([SECRET, PUBLIC], message_id, "0", "v1," + signatures, b"", now=0) == ""
    assert verify([SECRET, PUBLIC], message_id, "0", "v1a," + signatures, b"", now=0) == ""


SECRET, PUBLIC = new_secret()[0], new_secret("v1a")[1]


@given(st.binary(max_size=300), st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True), st.integers(0, 2**33))
def test_round_trip_over_any_bytes(body, message_id, timestamp):
    signed = sign([SECRET], message_id, timestamp, body)
    assert verify([SECRET], message_id, str(timestamp), signed.signature, body, now=timestamp)
    assert not verify([SECRET], message_id, str(timestamp), signed.signature, body + b"x", now=timestamp)
