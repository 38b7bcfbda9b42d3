"""Signature schemes as data: a provider names its scheme, and the table here says how a call is judged by it.

Pure: bytes, headers, secrets and `now` in, a `Verification` out. Nothing here may raise on what a stranger sends, and
nothing here reads the database. Keys that are empty or not decodable never match anything.

`standard_webhooks` signs the event's id and the time: a call counts for five minutes. `hmac_sha256_hex` signs the body
alone and `shared_token` nothing: there is no time to judge by, so what was once seen on the wire can be sent again. The
inbox therefore tells their events apart by their content, never by an id that anybody could have written beside it.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

TOLERANCE_SECONDS = 300  # Standard Webhooks, "Verifying webhook authenticity": both ways
MAX_HEADER_LENGTH = 4096  # of the headers that a scheme reads; what else travels along is none of its business
LEAST_KEY_BYTES = 24  # Standard Webhooks, "Signature scheme": 24 to 64 bytes
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_EVENT_ID = re.compile(r"[!-\-/-~]+")  # printable ASCII without the dot, which separates the signed parts
# Signatures stand side by side, a space between them (Standard Webhooks); two header lines arrive joined by a comma
# (RFC 9110 §5.3). No base64 has either, so each `v1,…` is found wherever it begins. The look-ahead lets them overlap.
_LIVE = re.compile(r"(?<![^\s,])v1,(?=([^\s,]+))")
_APART = re.compile(r"[\s,]+")
_QUOTES = ("'", '"')


@dataclass(frozen=True)
class SignedCall:
    """What a scheme may look at. Header names are lower case; `token` is the URL's `?token=`."""

    body: bytes
    headers: Mapping[str, str]
    token: str = ""


@dataclass(frozen=True)
class Verification:
    """Whether the call is genuine; if not, the reason word. `event_id`: the event's name, only where it is signed."""

    reason: str = ""
    event_id: str = ""

    @property
    def is_genuine(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Scheme:
    """How a call is judged, by which headers of its own, and how a configured secret becomes keys (none: unusable)."""

    judge: Callable[[SignedCall, Sequence[bytes], datetime], Verification]
    headers: tuple[str, ...]
    keys: Callable[[str], list[bytes]]


def verify(scheme: str, call: SignedCall, secrets: Sequence[str], now: datetime) -> Verification:
    """Judge a call by the scheme of that name. An unknown scheme, or no usable secret, refuses every call."""
    found = SCHEMES.get(scheme)
    if found is None:
        return Verification("unknown_scheme")
    present = [secret for secret in secrets if secret.strip()]
    if not present:
        return Verification("no_secret_configured")
    keys = [key for secret in present for key in found.keys(secret)]
    if not keys:
        return Verification("secret_unusable")
    if any(len(call.headers.get(name, "")) > MAX_HEADER_LENGTH for name in found.headers):
        return Verification("signature_malformed")
    return found.judge(call, keys, now)


def standard_webhooks(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
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
    if not _any_equal([_base64_hmac(key, signed) for key in keys], map(_bytes, _LIVE.findall(signatures))):
        return Verification("signature_wrong")
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE_SECONDS:
        return Verification("timestamp_outside_tolerance")
    return Verification(event_id=event_id)


def hmac_sha256_hex(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """GitHub's and Outscraper's: `X-Hub-Signature-256: sha256=<hex>` over the body; the secret is the key as it is."""
    header = call.headers.get("x-hub-signature-256", "")
    if not header:
        return Verification("signature_missing")
    given = [part[7:].lower() for part in _APART.split(header) if part.startswith("sha256=")]
    if not given:
        return Verification("signature_malformed")
    expected = [hmac.new(key, call.body, hashlib.sha256).hexdigest().encode() for key in keys]
    return Verification("" if _any_equal(expected, map(_bytes, given)) else "signature_wrong")


def shared_token(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """A secret the sender repeats (Apify): `Authorization: Bearer`, or `?token=` in the URL. The fetch is the proof."""
    scheme, _, bearer = call.headers.get("authorization", "").partition(" ")
    given = [_bytes(bearer.strip())] if scheme.lower() == "bearer" and bearer.strip() else []
    given += [call.token.encode("utf-8", "surrogatepass")] if call.token else []
    if not given:
        return Verification("signature_missing")
    return Verification("" if _any_equal(keys, given) else "signature_wrong")


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
    """The key bytes of a `whsec_…` secret (the prefix may be missing); empty if it is not base64.

    White space, quotes around it, missing padding and the URL-safe alphabet leave no doubt what is meant.
    """
    text = _bare("".join(secret.split())).removeprefix("whsec_").rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


_URL_SAFE = str.maketrans("-_", "+/")


def _standard_keys(secret: str) -> list[bytes]:
    key = standard_key(secret)
    return [key] if key else []


def _plain_keys(secret: str) -> list[bytes]:
    """The secret as it is, and without the white space and quotes that a file or a shell may have put around it."""
    spellings = dict.fromkeys((secret, secret.strip(), _bare(secret.strip())))
    return [text.encode("utf-8", "surrogateescape") for text in spellings if text.strip()]


SCHEMES: dict[str, Scheme] = {
    "standard_webhooks": Scheme(
        standard_webhooks,
        tuple(f"{who}-{part}" for who in ("webhook", "svix") for part in ("id", "timestamp", "signature")),
        _standard_keys,
    ),
    "hmac_sha256_hex": Scheme(hmac_sha256_hex, ("x-hub-signature-256",), _plain_keys),
    "shared_token": Scheme(shared_token, ("authorization",), _plain_keys),
}


def secret_fault(scheme: str, secret: str) -> str:
    """What is wrong with a configured secret under this scheme, in words and without any part of it; "" for nothing."""
    if scheme not in SCHEMES:
        return f"its signature scheme {scheme!r} does not exist"
    if not secret.strip():
        return "it is empty"
    if scheme != "standard_webhooks":
        return ""
    bare = _bare("".join(secret.split()))
    if bare.startswith(("whpk_", "whsk_")):
        return "it is a key of the asymmetric signatures (v1a), which are not supported; take the one with whsec_"
    if not standard_key(secret):
        return "it is not base64, so no signature can ever fit it: copy it again, whole, as whsec_…"
    return ""


def secret_doubt(scheme: str, secret: str) -> str:
    """What looks odd about a secret that can be used, in words; "" for nothing."""
    length = len(standard_key(secret)) if scheme == "standard_webhooks" else 0
    if 0 < length < LEAST_KEY_BYTES:
        return f"it has {length} bytes, and Standard Webhooks asks for {LEAST_KEY_BYTES} at least: was it cut off?"
    return ""


def _bare(text: str) -> str:
    """Without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES else text


def _base64_hmac(key: bytes, message: bytes) -> bytes:
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest())


def _any_equal(expected: Sequence[bytes], given: Iterable[bytes]) -> bool:
    """Whether any pair is equal, in a time that does not tell which."""
    found = False
    for theirs in given:
        for mine in expected:
            found |= hmac.compare_digest(mine, theirs)
    return found


def _bytes(value: str) -> bytes:
    """A header's bytes as they came: servers hand them to us as Latin-1."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
