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
from webhooks.schemes import SCHEMES, SignedCall, secret_doubt, secret_fault, standard_key, verify

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
        assert verify("standard_webhooks", call, [secret], NOW).reason == Refusal.SECRET_UNUSABLE


def test_github_style_hex():
    digest = hmac.new(b"api-key", BODY, hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={digest}", "x-github-delivery": "d-1"}
    verification = verify("hmac_sha256_hex", SignedCall(BODY, headers), ["old", "api-key"], NOW)
    assert verification.is_genuine
    assert verification.event_id == ""  # nobody signed it
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


GOOD = signed().headers["webhook-signature"]
BAD = "v1," + base64.b64encode(b"b" * 32).decode()


@pytest.mark.parametrize(
    "signatures",
    [
        f"{GOOD}, {BAD}",
        f"{GOOD},{BAD}",
        f"{BAD},{GOOD}",
        f"{BAD}, {GOOD}",
        f"{BAD} {GOOD}",
        f"{GOOD}\t{BAD}",
        f"v1a,AAAA,{GOOD}",
        f"v1a,AAAA, junk,,{GOOD},",
        f"v1,,{GOOD}",
        f"v1,v1,{GOOD[3:]}",
        " ".join([BAD] * 40 + [GOOD]),
    ],
)
def test_a_good_signature_counts_wherever_it_stands_among_others(signatures):
    """Two header lines arrive joined by a comma, which is also what separates a version from its signature."""
    call = changed(signed(), webhook_signature=signatures)
    assert verify("standard_webhooks", call, [SECRET], NOW).is_genuine


@pytest.mark.parametrize(
    "signatures", [f"{BAD}, {BAD}", f"v1a,{GOOD[3:]}", GOOD[3:], f"xv1,{GOOD[3:]}", f"V1,{GOOD[3:]}", GOOD[:-2]]
)
def test_no_arrangement_makes_a_bad_signature_good(signatures):
    call = changed(signed(), webhook_signature=signatures)
    assert verify("standard_webhooks", call, [SECRET], NOW).reason == Refusal.SIGNATURE_WRONG


@pytest.mark.parametrize("between", [",", ", ", " "])
def test_a_hub_signature_counts_wherever_it_stands_among_others(between):
    good, bad = (hmac.new(key, BODY, hashlib.sha256).hexdigest() for key in (b"api-key", b"old"))
    for order in ((good, bad), (bad, good)):
        header = between.join(f"sha256={digest}" for digest in order)
        assert verify("hmac_sha256_hex", SignedCall(BODY, {"x-hub-signature-256": header}), ["api-key"], NOW).is_genuine
    twice_bad = {"x-hub-signature-256": f"sha256={bad}{between}sha1={good}"}
    assert verify("hmac_sha256_hex", SignedCall(BODY, twice_bad), ["api-key"], NOW).reason == Refusal.SIGNATURE_WRONG


@pytest.mark.parametrize("name", ["traceparent", "x-client-cert", "authorization", "x-hub-signature-256"])
def test_a_header_that_is_none_of_the_schemes_may_be_of_any_length(name):
    call = signed()
    assert verify("standard_webhooks", SignedCall(BODY, {**call.headers, name: "x" * 60_000}), [SECRET], NOW).is_genuine


def test_an_event_id_may_be_long_but_not_endless():
    for length, reason in ((200, ""), (4_000, ""), (4_097, Refusal.SIGNATURE_MALFORMED)):
        name = "m" * length
        headers = {
            "webhook-id": name,
            "webhook-timestamp": str(int(NOW.timestamp())),
            "webhook-signature": Webhook(SECRET).sign(name, NOW, BODY.decode()),
        }
        verification = verify("standard_webhooks", SignedCall(BODY, headers), [SECRET], NOW)
        assert (verification.reason, verification.event_id) == (reason, "" if reason else name)


ODD_KEY = bytes(range(250, 256)) + b"?>~" * 7  # its base64 has + and /, and padding is due
ODD = base64.b64encode(ODD_KEY + b"x").decode()


@pytest.mark.parametrize(
    "secret",
    [
        f"whsec_{ODD}",
        ODD,
        ODD.rstrip("="),
        f"whsec_{ODD.rstrip('=')}",
        f"whsec_{ODD.replace('+', '-').replace('/', '_')}",
        f'"whsec_{ODD}"',
        f"'whsec_{ODD}'\n",
        f" whsec_{ODD} ",
        f"whsec_{ODD[:10]}\n{ODD[10:]}",
    ],
)
def test_a_secret_is_read_however_it_was_copied_where_its_meaning_is_clear(secret):
    assert "+" in ODD and "/" in ODD and ODD.endswith("=")
    assert standard_key(secret) == ODD_KEY + b"x"
    assert (secret_fault("standard_webhooks", secret), secret_doubt("standard_webhooks", secret)) == ("", "")


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("whsec_!!!", "not base64"),
        ("whsec_", "not base64"),
        ("my secret, really", "not base64"),
        ("whsec_" + "a" * 33, "not base64"),
        ("whpk_AAAA", "v1a"),
        ("whsk_AAAA", "v1a"),
        ("  ", "empty"),
    ],
)
def test_a_secret_that_no_signature_can_fit_is_told_in_words_without_it(secret, words):
    said = secret_fault("standard_webhooks", secret)
    assert words in said
    assert secret.strip().removeprefix("whsec_") not in said or not secret.strip().removeprefix("whsec_")
    wanted = Refusal.SECRET_UNUSABLE if secret.strip() else Refusal.NO_SECRET
    assert verify("standard_webhooks", signed(), [secret], NOW).reason == wanted
    assert verify("standard_webhooks", signed(), [secret, SECRET], NOW).is_genuine


def test_a_secret_that_looks_cut_off_is_doubted_and_works():
    short = "whsec_" + base64.b64encode(b"k" * 16).decode()
    assert "16 bytes" in secret_doubt("standard_webhooks", short)
    assert secret_fault("standard_webhooks", short) == ""
    assert verify("standard_webhooks", signed(secret=short), [short], NOW).is_genuine


@pytest.mark.parametrize("spelled", ["api-key", "api-key\n", "'api-key'", ' "api-key" '])
def test_a_plain_secret_works_with_what_a_file_or_a_shell_put_around_it(spelled):
    digest = hmac.new(b"api-key", BODY, hashlib.sha256).hexdigest()
    call = SignedCall(BODY, {"x-hub-signature-256": f"sha256={digest}", "authorization": "Bearer api-key"})
    for scheme in ("hmac_sha256_hex", "shared_token"):
        assert verify(scheme, call, [spelled], NOW).is_genuine
        assert verify(scheme, call, [f"{spelled}x"], NOW).reason == Refusal.SIGNATURE_WRONG


def test_secrets_and_tokens_beyond_ascii_are_compared_by_their_bytes():
    latin = "tökén".encode().decode("latin-1")  # as a server hands it over
    assert verify("shared_token", SignedCall(BODY, {"authorization": f"Bearer {latin}"}), ["tökén"], NOW).is_genuine
    assert verify("shared_token", SignedCall(BODY, {}, token="tökén"), ["tökén"], NOW).is_genuine
    undecoded = "s\udcff"  # an environment variable that is not UTF-8
    digest = hmac.new(b"s\xff", BODY, hashlib.sha256).hexdigest()
    call = SignedCall(BODY, {"x-hub-signature-256": f"sha256={digest}"})
    assert verify("hmac_sha256_hex", call, [undecoded], NOW).is_genuine
