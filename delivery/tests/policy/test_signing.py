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
    MAX_SIGNATURES,
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


def test_new_secrets_hold_what_the_standard_recommends():
    secret, public = new_secret()
    assert (len(load_key(secret).hmac_key), public) == (32, "")
    private, public = new_secret("v1a")
    assert len(base64.b64decode(private.removeprefix("whsk_"))) == 64
    assert len(base64.b64decode(public.removeprefix("whpk_"))) == 32
    assert new_secret()[0] != secret


def test_an_unknown_scheme_makes_no_secret():
    with pytest.raises(SecretInvalid, match="'v2': use v1 or v1a") as caught:
        new_secret("v2")
    assert (caught.value.code, str(caught.value)) == ("scheme", caught.value.detail)


@pytest.mark.parametrize(("count", "is_good"), [(23, False), (24, True), (64, True), (65, False)])
def test_a_secret_holds_24_to_64_bytes(count, is_good):
    text = "whsec_" + base64.b64encode(b"k" * count).decode()
    if is_good:
        assert load_key(text).hmac_key == b"k" * count
    else:
        with pytest.raises(SecretInvalid, match=f"24 to 64 bytes, not {count}"):
            load_key(text)


def test_no_key_is_in_a_repr():
    for text in (*new_secret("v1a"), new_secret()[0]):
        key = load_key(text)
        assert repr(key) == f"Key(scheme='{key.scheme}', key_id='{key.key_id}')"


def test_both_halves_of_a_pair_have_one_id_that_tells_nothing():
    private, public = new_secret("v1a")
    assert load_key(private).key_id == load_key(public).key_id
    assert len(load_key(private).key_id) == 8
    seed_alone = "whsk_" + base64.b64encode(base64.b64decode(private.removeprefix("whsk_"))[:32]).decode()
    assert load_key(seed_alone).key_id == load_key(private).key_id
    assert public_key_of(seed_alone) == public


def test_an_hmac_secret_has_no_public_key():
    assert public_key_of(new_secret()[0]) == ""


def test_twenty_signatures_are_looked_at_and_no_more():
    signed = sign([SECRET], "msg_1", 0, BODY).signature
    assert proves([SECRET], "msg_1", 0, " ".join(["v1,AAAA"] * (MAX_SIGNATURES - 1) + [signed]), BODY)
    assert not proves([SECRET], "msg_1", 0, " ".join(["v1,AAAA"] * MAX_SIGNATURES + [signed]), BODY)
    assert MAX_SIGNATURES == 20


def test_a_signature_counts_under_its_own_scheme_only():
    text = sign([SECRET], "msg_1", 0, BODY).signature.removeprefix("v1,")
    for other in ("v1a,", "v2,", ",", "V1,", ""):
        assert not proves([SECRET, PUBLIC], "msg_1", 0, other + text, BODY)


def test_of_several_keys_the_one_that_signed_is_named():
    other = new_secret()[0]
    signed = sign([SECRET], "msg_1", 0, BODY).signature
    assert proves([PUBLIC, other, SECRET], "msg_1", 0, signed, BODY) == load_key(SECRET).key_id
    assert proves([PUBLIC, other], "msg_1", 0, signed, BODY) == ""


@pytest.mark.parametrize(
    ("timestamp", "is_read"), [("9" * 14, True), ("1" + "0" * 14, False), ("+1", False), ("-1", False), ("", False)]
)
def test_a_timestamp_is_up_to_fourteen_digits(timestamp, is_read):
    moment = int(timestamp or "0")
    signed = sign([SECRET], "msg_1", moment, BODY).signature
    assert bool(verify([SECRET], "msg_1", timestamp, signed, BODY, now=moment)) is is_read


def test_digits_of_other_alphabets_are_no_timestamp():
    signed = sign([SECRET], "msg_1", 12, BODY).signature
    assert verify([SECRET], "msg_1", "12", signed, BODY, now=12)
    assert not verify([SECRET], "msg_1", "١٢", signed, BODY, now=12)


@pytest.mark.parametrize("scheme", ["v1", "v1a"])
def test_what_is_no_base64_matches_nothing(scheme):
    assert proves([SECRET, PUBLIC], "msg_1", 0, f"{scheme},no base64!", BODY) == ""
    assert proves([SECRET, PUBLIC], "msg_1", 0, f"{scheme},\x00é", BODY) == ""
