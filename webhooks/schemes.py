"""Signature schemes as data: a provider names its scheme, and the table here says how a call is judged by it.

Pure: bytes, headers, secrets and `now` in, a `Verification` out. Nothing here may raise on what a stranger sends, and
nothing here reads the database. Keys that are empty or not decodable never match anything.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

TOLERANCE_SECONDS = 300  # Standard Webhooks, "Verifying webhook authenticity": both ways
MAX_SIGNATURES = 10
MAX_HEADER_LENGTH = 4096
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_EVENT_ID = re.compile(r"[!-\-/-~]{1,200}")  # printable ASCII without the dot, which separates the signed parts


@dataclass(frozen=True)
class SignedCall:
    """What a scheme may look at. Header names are lower case; `token` is the URL's `?token=`."""

    body: bytes
    headers: Mapping[str, str]
    token: str = ""


@dataclass(frozen=True)
class Verification:
    """Whether the call is genuine; if not, the reason word. `event_id` is the sender's own name for the event."""

    reason: str = ""
    event_id: str = ""

    @property
    def is_genuine(self) -> bool:
        return not self.reason


Scheme = Callable[[SignedCall, Sequence[str], datetime], Verification]


def verify(scheme: str, call: SignedCall, secrets: Sequence[str], now: datetime) -> Verification:
    """Judge a call by the scheme of that name. An unknown scheme, or no usable secret, refuses every call."""
    judge = SCHEMES.get(scheme)
    if judge is None:
        return Verification("unknown_scheme")
    usable = [secret for secret in secrets if secret and secret.strip()]
    if not usable:
        return Verification("no_secret_configured")
    if any(len(value) > MAX_HEADER_LENGTH for value in call.headers.values()):
        return Verification("signature_malformed")
    return judge(call, usable, now)


def standard_webhooks(call: SignedCall, secrets: Sequence[str], now: datetime) -> Verification:
    """Standard Webhooks `v1` (and Svix, its older name): base64 HMAC-SHA256 over `id.timestamp.body`."""
    event_id, timestamp, signatures = (
        call.headers.get(f"webhook-{part}") or call.headers.get(f"svix-{part}") or ""
        for part in ("id", "timestamp", "signature")
    )
    if not (event_id and timestamp and signatures):
        return Verification("signature_missing")
    if not _EVENT_ID.fullmatch(event_id) or not _TIMESTAMP.fullmatch(timestamp):
        return Verification("signature_malformed")
    signed = f"{event_id}.{timestamp}.".encode() + call.body
    expected = [_base64_hmac(key, signed) for key in map(standard_key, secrets) if key]
    given = [part[3:] for part in signatures.split(" ")[:MAX_SIGNATURES] if part.startswith("v1,")]
    if not _any_equal(expected, given):
        return Verification("signature_wrong")
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE_SECONDS:
        return Verification("timestamp_outside_tolerance")
    return Verification(event_id=event_id)


def hmac_sha256_hex(call: SignedCall, secrets: Sequence[str], now: datetime) -> Verification:
    """GitHub's and Outscraper's: `X-Hub-Signature-256: sha256=<hex>` over the body; the secret is the key as it is."""
    header = call.headers.get("x-hub-signature-256", "")
    if not header:
        return Verification("signature_missing")
    prefix, _, given = header.partition("=")
    if prefix != "sha256":
        return Verification("signature_malformed")
    expected = [hmac.new(secret.encode(), call.body, hashlib.sha256).hexdigest().encode() for secret in secrets]
    if not _any_equal(expected, [given.lower()]):
        return Verification("signature_wrong")
    return Verification(event_id=_clean_id(call.headers.get("x-github-delivery", "")))


def shared_token(call: SignedCall, secrets: Sequence[str], now: datetime) -> Verification:
    """A secret the sender repeats (Apify): `Authorization: Bearer`, or `?token=` in the URL. The fetch is the proof."""
    scheme, _, bearer = call.headers.get("authorization", "").partition(" ")
    given = [token for token in (bearer.strip() if scheme.lower() == "bearer" else "", call.token) if token]
    if not given:
        return Verification("signature_missing")
    if not _any_equal([secret.encode() for secret in secrets], given):
        return Verification("signature_wrong")
    return Verification(event_id=_clean_id(call.headers.get("x-apify-webhook-dispatch-id", "")))


SCHEMES: dict[str, Scheme] = {
    "standard_webhooks": standard_webhooks,
    "hmac_sha256_hex": hmac_sha256_hex,
    "shared_token": shared_token,
}
# What a scheme names an event by, beside its signed parts; kept with the stored event.
EVENT_ID_HEADERS = (
    "webhook-id",
    "webhook-timestamp",
    "svix-id",
    "svix-timestamp",
    "x-github-delivery",
    "x-apify-webhook-dispatch-id",
)


def standard_key(secret: str) -> bytes:
    """The key bytes of a `whsec_…` secret (the prefix may be missing); empty if it is not base64."""
    try:
        return base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _base64_hmac(key: bytes, message: bytes) -> bytes:
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest())


def _any_equal(expected: Sequence[bytes], given: Sequence[str]) -> bool:
    """Whether any pair is equal, in a time that does not tell which. Bytes: `compare_digest` refuses non-ASCII text."""
    found = False
    for mine in expected:
        for theirs in given:
            found |= hmac.compare_digest(mine, theirs.encode("utf-8", "surrogatepass"))
    return found


def _clean_id(value: str) -> str:
    return value if _EVENT_ID.fullmatch(value) else ""
