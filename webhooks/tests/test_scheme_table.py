"""Every scheme of the table: what its provider signs is taken, by any live secret; one bit changed is refused.

What signs here is the provider's own client or specification, never our own code: each sample says which.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from webhooks.models import Refusal
from webhooks.schemes import SCHEMES, SignedCall, secret_fault, verify

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
STAMP = str(int(NOW.timestamp()))
BODY = '{"job_id": "j1", "name": "₹ മലയാളം"}'.encode()
PRIVATE = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
OTHERS_PRIVATE = Ed25519PrivateKey.from_private_bytes(b"q" * 32)
WHSEC = "whsec_" + base64.b64encode(b"k" * 24).decode()


def public_of(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def hexed(key: str, message: bytes) -> str:
    return hmac.new(key.encode(), message, hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Sample:
    """A genuine call; `covers` what one bit may not change beside the signature's header."""

    scheme: str
    secret: str
    other: str
    call: SignedCall
    covers: tuple[str, ...] = ("body",)
    is_timed: bool = False
    signature: str = field(default="")


def standard() -> Sample:
    headers = {"webhook-id": "m1", "webhook-timestamp": STAMP}
    headers["webhook-signature"] = Webhook(WHSEC).sign("m1", NOW, BODY.decode())
    other = "whsec_" + base64.b64encode(b"o" * 24).decode()
    call = SignedCall(BODY, headers)
    return Sample("standard_webhooks", WHSEC, other, call, ("body", "webhook-id", "webhook-timestamp"), True)


def standard_public() -> Sample:
    """v1a, as the specification has it: `id.timestamp.body`, Ed25519, base64."""
    signature = PRIVATE.sign(f"m1.{STAMP}.".encode() + BODY)
    headers = {"webhook-id": "m1", "webhook-timestamp": STAMP}
    headers["webhook-signature"] = f"v1a,{base64.b64encode(signature).decode()}"
    secret, other = (f"whpk_{base64.b64encode(public_of(key)).decode()}" for key in (PRIVATE, OTHERS_PRIVATE))
    call = SignedCall(BODY, headers)
    return Sample("standard_webhooks", secret, other, call, ("body", "webhook-id", "webhook-timestamp"), True)


def github() -> Sample:
    call = SignedCall(BODY, {"x-hub-signature-256": f"sha256={hexed('s1', BODY)}"})
    return Sample("hmac_sha256_hex", "s1", "s2", call)


def stripe() -> Sample:
    """The secret is the key as it is, also with `whsec_`."""
    signature = hexed("whsec_abc", f"{STAMP}.".encode() + BODY)
    call = SignedCall(BODY, {"stripe-signature": f"t={STAMP},v1={signature},v0=00"})
    return Sample("stripe", "whsec_abc", "whsec_abd", call, ("body",), True, signature=signature)


def slack() -> Sample:
    headers = {"x-slack-request-timestamp": STAMP}
    headers["x-slack-signature"] = f"v0={hexed('s1', f'v0:{STAMP}:'.encode() + BODY)}"
    return Sample("slack", "s1", "s2", SignedCall(BODY, headers), ("body", "x-slack-request-timestamp"), True)


def shopify() -> Sample:
    digest = base64.b64encode(hmac.new(b"s1", BODY, hashlib.sha256).digest()).decode()
    return Sample("shopify", "s1", "s2", SignedCall(BODY, {"x-shopify-hmac-sha256": digest}))


def sha1(key: str, message: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), message.encode(), hashlib.sha1).digest()).decode()


URL = "https://jobs.example/webhooks/sms/?foo=1"
FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


def twilio() -> Sample:
    headers = {**FORM, "x-twilio-signature": sha1("t1", URL + "Body" + "₹ 1" + "CallSid" + "CA1" + "Empty")}
    body = b"CallSid=CA1&Body=%E2%82%B9+1&Empty="
    return Sample("twilio", "t1", "t2", SignedCall(body, headers, url=URL), ("body", "url"))


def twilio_json() -> Sample:
    url = f"{URL}&bodySHA256={hashlib.sha256(BODY).hexdigest()}"
    headers = {"content-type": "application/json", "x-twilio-signature": sha1("t1", url)}
    return Sample("twilio", "t1", "t2", SignedCall(BODY, headers, url=url), ("body", "url"))


def fal() -> Sample:
    message = "\n".join(("r1", "u1", STAMP, hashlib.sha256(BODY).hexdigest())).encode()
    headers = {
        "x-fal-webhook-request-id": "r1",
        "x-fal-webhook-user-id": "u1",
        "x-fal-webhook-timestamp": STAMP,
        "x-fal-webhook-signature": PRIVATE.sign(message).hex(),
    }
    secret, other = (base64.urlsafe_b64encode(public_of(key)).decode().rstrip("=") for key in (PRIVATE, OTHERS_PRIVATE))
    covers = ("body", "x-fal-webhook-request-id", "x-fal-webhook-user-id", "x-fal-webhook-timestamp")
    return Sample("fal", secret, other, SignedCall(BODY, headers), covers, True)


def bearer() -> Sample:
    return Sample("shared_token", "t1", "t2", SignedCall(BODY, {"authorization": "Bearer t1"}), ("authorization",))


def basic() -> Sample:
    pair = base64.b64encode("us:pä:ss".encode()).decode()
    call = SignedCall(BODY, {"authorization": f"Basic {pair}"})
    return Sample("shared_token", "us:pä:ss", "us:other", call, ("authorization",))


def in_url() -> Sample:
    return Sample("shared_token", "t1", "t2", SignedCall(BODY, {}, token="t1"), ("token",))


MAKERS: tuple[Callable[[], Sample], ...] = (
    standard, standard_public, github, stripe, slack, shopify, twilio, twilio_json, fal, bearer, basic, in_url,
)  # fmt: skip
each = pytest.mark.parametrize("sample", [make() for make in MAKERS], ids=[make.__name__ for make in MAKERS])


def judged(sample: Sample, call: SignedCall, *secrets: str, now: datetime = NOW) -> str:
    return verify(sample.scheme, call, secrets or [sample.secret], now).reason


def test_no_scheme_of_the_table_is_without_a_sample():
    assert {make().scheme for make in MAKERS} == set(SCHEMES)


@each
def test_what_the_provider_signs_is_genuine_by_any_of_several_live_secrets(sample):
    assert judged(sample, sample.call) == ""
    assert judged(sample, sample.call, sample.other, sample.secret) == ""
    assert judged(sample, sample.call, sample.secret, sample.other) == ""
    assert judged(sample, sample.call, sample.other) == Refusal.SIGNATURE_WRONG
    assert secret_fault(sample.scheme, sample.secret) == ""


def flipped(data: bytes) -> list[bytes]:
    return [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]


def one_bit_off(sample: Sample, part: str) -> list[SignedCall]:
    if part == "body":
        return [replace(sample.call, body=body) for body in flipped(sample.call.body)]
    if part in ("url", "token"):
        found = flipped(getattr(sample.call, part).encode())
        return [replace(sample.call, **{part: text.decode("latin-1")}) for text in found]
    found = flipped(sample.call.headers[part].encode())
    return [replace(sample.call, headers={**sample.call.headers, part: text.decode("latin-1")}) for text in found]


@each
def test_one_bit_changed_is_refused(sample):
    """The lowest bit of each byte of all that is signed, and of the signature."""
    signatures = [name for name in sample.call.headers if "signature" in name or "hmac" in name]
    tried = 0
    for part in (*sample.covers, *signatures):
        for call in one_bit_off(sample, part):
            tried += 1
            if not _says_the_same(sample, part, call):
                assert judged(sample, call) != "", (part, call)
    assert tried >= 2


def _says_the_same(sample: Sample, part: str, call: SignedCall) -> bool:
    """A bit that carries nothing: the case of `Bearer`, Stripe's unused `v0`, the last bits of base64."""
    value = getattr(call, part, None) or call.headers.get(part, "")
    if part == "stripe-signature":
        return f"t={STAMP}," in value and f"v1={sample.signature}" in value
    return part == "webhook-signature" and _bytes_of(value) == _bytes_of(sample.call.headers[part])


def _bytes_of(value: str) -> Any:
    version, _, text = value.partition(",")
    try:
        return version, base64.b64decode(text) if version == "v1a" else text
    except ValueError:
        return None


@each
def test_a_call_without_its_headers_is_refused_as_unsigned(sample):
    assert judged(sample, replace(sample.call, headers={}, token="")) == Refusal.SIGNATURE_MISSING


@each
def test_a_signed_time_counts_for_five_minutes_both_ways(sample):
    late = [judged(sample, sample.call, now=NOW + timedelta(seconds=seconds)) for seconds in (-301, -299, 299, 301)]
    wanted = Refusal.TIMESTAMP if sample.is_timed else ""
    assert late == [wanted, "", "", wanted]


@each
def test_no_secret_of_spaces_or_of_nothing_opens_anything(sample):
    assert judged(sample, sample.call, "") == judged(sample, sample.call, " ") == Refusal.NO_SECRET


# --- the providers' own documents and clients ---------------------------------------------------------------------


def test_githubs_own_example():
    """docs.github.com, "Testing the webhook payload validation"."""
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    call = SignedCall(b"Hello, World!", {"x-hub-signature-256": f"sha256={digest}"})
    assert verify("hmac_sha256_hex", call, ["It's a Secret to Everybody"], NOW).is_genuine


SLACKS = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14"
    b"d10d2c447fce8b6703c"
)


def test_slacks_own_example():
    """docs.slack.dev, "Verifying requests from Slack"."""
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    at = datetime.fromtimestamp(1531420618, UTC)
    assert verify("slack", SignedCall(SLACKS, headers), ["8f742231b10e8888abcd99yyyzzz85a5"], at).is_genuine


TWILIOS = b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212"


@pytest.mark.parametrize("host", ["mycompany.com", "mycompany.com:443"])
def test_twilios_own_example_with_and_without_the_port(host):
    """twilio-python, tests/unit/test_request_validator.py."""
    headers = {**FORM, "x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8="}
    call = SignedCall(TWILIOS, headers, url=f"https://{host}/myapp.php?foo=1&bar=2")
    assert verify("twilio", call, ["12345"], NOW).is_genuine
    assert not verify("twilio", replace(call, url=call.url.replace("443", "8443") + "&x=1"), ["12345"], NOW).is_genuine


def test_twilios_own_example_of_a_json_body():
    digest = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
    url = f"https://mycompany.com/myapp.php?foo=1&bar=2&bodySHA256={digest}"
    headers = {"content-type": "application/json", "x-twilio-signature": "a9nBmqA0ju/hNViExpshrM61xv4="}
    call = SignedCall(b'{"property": "value", "boolean": true}', headers, url=url)
    assert verify("twilio", call, ["12345"], NOW).is_genuine


def test_a_body_that_nothing_covers_is_no_twilios():
    """JSON without its hash in the URL: the signature would be that of the bare address, of any body."""
    headers = {"content-type": "application/json", "x-twilio-signature": sha1("t1", URL)}
    assert verify("twilio", SignedCall(b"", headers, url=URL), ["t1"], NOW).is_genuine
    assert verify("twilio", SignedCall(b"{}", headers, url=URL), ["t1"], NOW).reason == Refusal.SIGNATURE_WRONG


def test_openais_and_replicates_own_clients_take_what_we_take():
    import time

    from openai import InvalidWebhookSignatureError, OpenAI
    from replicate.webhook import Webhooks, WebhookSigningSecret

    now = datetime.fromtimestamp(int(time.time()), UTC)
    headers = {"webhook-id": "wh_1", "webhook-timestamp": str(int(now.timestamp()))}
    headers["webhook-signature"] = Webhook(WHSEC).sign("wh_1", now, BODY.decode())
    client = OpenAI(api_key="none", webhook_secret=WHSEC)
    client.webhooks.verify_signature(BODY, headers)
    Webhooks.validate(headers=headers, body=BODY.decode(), secret=WebhookSigningSecret(key=WHSEC), tolerance=300)
    assert verify("standard_webhooks", SignedCall(BODY, headers), [WHSEC], now).is_genuine
    with pytest.raises(InvalidWebhookSignatureError):
        client.webhooks.verify_signature(BODY + b" ", headers)
    assert not verify("standard_webhooks", SignedCall(BODY + b" ", headers), [WHSEC], now).is_genuine


def test_both_sorts_of_standard_keys_live_side_by_side():
    v1, v1a = standard(), standard_public()
    both = f"{v1.call.headers['webhook-signature']} {v1a.call.headers['webhook-signature']}"
    call = replace(v1.call, headers={**v1.call.headers, "webhook-signature": both})
    for secrets in ([v1.secret], [v1a.secret], [v1.other, v1a.secret], [v1a.other, v1.secret]):
        assert verify("standard_webhooks", call, secrets, NOW).event_id == "m1"
    assert not verify("standard_webhooks", call, [v1.other, v1a.other], NOW).is_genuine


def test_a_public_key_is_never_an_hmac_key():
    """Whoever knows the public key could else sign with it."""
    sample = standard_public()
    key = base64.b64encode(public_of(PRIVATE)).decode()
    headers = {**sample.call.headers, "webhook-signature": Webhook(key).sign("m1", NOW, BODY.decode())}
    assert judged(sample, replace(sample.call, headers=headers)) == Refusal.SIGNATURE_WRONG


@pytest.mark.parametrize(
    ("scheme", "secret", "words"),
    [
        ("standard_webhooks", "whsk_AAAA", "private half"),
        ("standard_webhooks", "whpk_AAAA", "32 bytes"),
        ("fal", "not a key", "no Ed25519 public key"),
    ],
)
def test_a_key_that_can_never_fit_is_told(scheme, secret, words):
    assert words in secret_fault(scheme, secret)
    assert verify(scheme, standard().call, [secret], NOW).reason == Refusal.SECRET_UNUSABLE
