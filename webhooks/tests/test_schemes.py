"""Signature schemes: what an independent library signs is taken, and nothing else is."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from webhooks.models import Refusal
from webhooks.schemes import SCHEMES, SignedCall, verify

SECRET = "whsec_" + base64.b64encode(b"k" * 24).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 24).decode()
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
BODY = '{"job_id": "j1", "name": "₹ മലയാളം"}'.encode()


def signed(body: bytes = BODY, *, secret: str = SECRET, at: datetime = NOW, prefix: str = "webhook") -> SignedCall:
    signature = Webhook(secret).sign("msg_1", at, body.decode())
    return SignedCall(
        body,
        {
            f"{prefix}-id": "msg_1",
            f"{prefix}-timestamp": str(int(at.timestamp())),
            f"{prefix}-signature": signature,
        },
    )


def changed(call: SignedCall, **headers: str) -> SignedCall:
    return SignedCall(call.body, {**call.headers, **{name.replace("_", "-"): value for name, value in headers.items()}})


@pytest.mark.parametrize("prefix", ["webhook", "svix"])
def test_what_the_library_signs_is_genuine(prefix):
    verification = verify("standard_webhooks", signed(prefix=prefix), [SECRET], NOW)
    assert verification.is_genuine
    assert verification.event_id == "msg_1"


def test_any_of_several_secrets_and_any_of_several_signatures_will_do():
    assert verify("standard_webhooks", signed(), [OTHER, SECRET], NOW).is_genuine
    call = signed()
    both = "v1a,AAAA v1,AAAA " + call.headers["webhook-signature"]
    assert verify("standard_webhooks", changed(call, webhook_signature=both), [SECRET], NOW).is_genuine


@pytest.mark.parametrize(("seconds", "genuine"), [(0, True), (299, True), (-299, True), (301, False), (-301, False)])
def test_tolerance_is_five_minutes_both_ways(seconds, genuine):
    verification = verify("standard_webhooks", signed(), [SECRET], NOW + timedelta(seconds=seconds))
    assert verification.is_genuine is genuine
    if not genuine:
        assert verification.reason == Refusal.TIMESTAMP


def test_a_changed_byte_is_refused():
    call = signed()
    for position in range(len(BODY)):
        body = BODY[:position] + bytes([BODY[position] ^ 1]) + BODY[position + 1 :]
        assert (
            verify("standard_webhooks", SignedCall(body, call.headers), [SECRET], NOW).reason == Refusal.SIGNATURE_WRONG
        )


def test_a_moved_dot_is_no_way_round_the_signature():
    """`id.timestamp.body` is one string: an id with a dot could shift the borders."""
    body = b"1.{}"
    call = SignedCall(
        b"{}",
        {
            "webhook-id": f"msg_1.{int(NOW.timestamp())}",
            "webhook-timestamp": "1",
            "webhook-signature": Webhook(SECRET).sign("msg_1", NOW, body.decode()),
        },
    )
    assert verify("standard_webhooks", call, [SECRET], NOW).reason == Refusal.SIGNATURE_MALFORMED


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"webhook-id": ""}, Refusal.SIGNATURE_MISSING),
        ({"webhook-timestamp": ""}, Refusal.SIGNATURE_MISSING),
        ({"webhook-signature": ""}, Refusal.SIGNATURE_MISSING),
        ({"webhook-timestamp": "soon"}, Refusal.SIGNATURE_MALFORMED),
        ({"webhook-timestamp": "9" * 400}, Refusal.SIGNATURE_MALFORMED),
        ({"webhook-timestamp": "１７７７"}, Refusal.SIGNATURE_MALFORMED),
        ({"webhook-id": "a b"}, Refusal.SIGNATURE_MALFORMED),
        ({"webhook-signature": "junk"}, Refusal.SIGNATURE_WRONG),
        ({"webhook-signature": "v1,ü\udce4,,,"}, Refusal.SIGNATURE_WRONG),
        ({"webhook-signature": "v1," * 20_000}, Refusal.SIGNATURE_MALFORMED),
    ],
)
def test_junk_headers_are_refused_with_a_reason(headers, reason):
    call = signed()
    assert verify("standard_webhooks", SignedCall(BODY, {**call.headers, **headers}), [SECRET], NOW).reason == reason


@pytest.mark.parametrize("secrets", [[], [""], ["   "]])
def test_no_secret_opens_nothing(secrets):
    for scheme in SCHEMES:
        assert verify(scheme, signed(), secrets, NOW).reason == Refusal.NO_SECRET


def test_an_undecodable_or_empty_key_opens_nothing():
    empty = base64.b64encode(hmac.new(b"", b"msg_1.0." + BODY, hashlib.sha256).digest()).decode()
    call = SignedCall(BODY, {"webhook-id": "msg_1", "webhook-timestamp": "0", "webhook-signature": f"v1,{empty}"})
    for secret in ("whsec_", "whsec_!!!"):
        assert verify("standard_webhooks", call, [secret], NOW).reason == Refusal.SIGNATURE_WRONG


def test_github_style_hex():
    digest = hmac.new(b"api-key", BODY, hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={digest}", "x-github-delivery": "d-1"}
    verification = verify("hmac_sha256_hex", SignedCall(BODY, headers), ["old", "api-key"], NOW)
    assert verification.is_genuine
    assert verification.event_id == "d-1"
    assert (
        verify("hmac_sha256_hex", SignedCall(BODY + b" ", headers), ["api-key"], NOW).reason == Refusal.SIGNATURE_WRONG
    )
    assert verify("hmac_sha256_hex", SignedCall(BODY, {}), ["api-key"], NOW).reason == Refusal.SIGNATURE_MISSING
    wrong = {"x-hub-signature-256": f"sha1={digest}"}
    assert verify("hmac_sha256_hex", SignedCall(BODY, wrong), ["api-key"], NOW).reason == Refusal.SIGNATURE_MALFORMED


def test_shared_token_by_header_or_url():
    assert verify("shared_token", SignedCall(BODY, {"authorization": "Bearer t1"}), ["t0", "t1"], NOW).is_genuine
    assert verify("shared_token", SignedCall(BODY, {}, token="t1"), ["t1"], NOW).is_genuine
    assert verify("shared_token", SignedCall(BODY, {}, token="t2"), ["t1"], NOW).reason == Refusal.SIGNATURE_WRONG
    assert verify("shared_token", SignedCall(BODY, {"authorization": "Basic t1"}), ["t1"], NOW).reason == (
        Refusal.SIGNATURE_MISSING
    )


def test_an_unknown_scheme_refuses():
    assert verify("rot13", signed(), [SECRET], NOW).reason == Refusal.UNKNOWN_SCHEME


NAMES = st.sampled_from(
    ["webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256", "authorization", "svix-id"]
)


@given(
    st.sampled_from(sorted(SCHEMES)),
    st.binary(max_size=100),
    st.dictionaries(NAMES, st.text(max_size=60)),
    st.text(max_size=20),
    st.text(max_size=30),
)
def test_no_junk_raises_and_none_gets_in(scheme, body, headers, token, secret):
    verification = verify(scheme, SignedCall(body, headers, token), [secret, SECRET], NOW)
    assert verification.reason in {*Refusal.values, ""}
    if verification.is_genuine:  # only by having guessed the shared token
        assert scheme == "shared_token"
        assert secret
