"""What every signature scheme works with: a call, a verdict, keys, and comparisons that do not tell which byte differs.

Pure: nothing here reads the database or the network, and nothing raises on what a stranger sends.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TOLERANCE_SECONDS = 300  # Standard Webhooks, "Verifying webhook authenticity"; Stripe, Slack and fal name the same
PUBLIC_KEY_BYTES, ED25519_SIGNATURE_BYTES = 32, 64
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_APART = re.compile(r"[\s,]+")  # two header lines arrive joined by a comma (RFC 9110 §5.3)
_QUOTES = ("'", '"')


@dataclass(frozen=True)
class SignedCall:
    """What a scheme may look at. Header names are lower case; `token` is the URL's `?token=`.

    `url` is the public address as the provider called it, with its query.
    """

    body: bytes
    headers: Mapping[str, str]
    token: str = ""
    url: str = ""


@dataclass(frozen=True)
class Verification:
    """Whether the call is genuine; if not, the reason word. `event_id`: the event's name, only where it is signed."""

    reason: str = ""
    event_id: str = ""

    @property
    def is_genuine(self) -> bool:
        return not self.reason


class PublicKey(bytes):
    """An Ed25519 public key; any other key is an HMAC's."""


def no_words(_secret: str) -> str:
    return ""


@dataclass(frozen=True)
class Scheme:
    """How a call is judged, by which headers of its own, and how a configured secret becomes keys (none: unusable).

    `fault` says in words why a secret cannot be used, `doubt` what looks odd about one that can; never any part of it.
    """

    judge: Callable[[SignedCall, Sequence[bytes], datetime], Verification]
    headers: tuple[str, ...]
    keys: Callable[[str], list[bytes]]
    fault: Callable[[str], str] = no_words
    doubt: Callable[[str], str] = no_words


def plain_keys(secret: str) -> list[bytes]:
    """The secret as it is, and without the white space and quotes that a file or a shell may have put around it."""
    spellings = dict.fromkeys((secret, secret.strip(), bare(secret.strip())))
    return [text.encode("utf-8", "surrogateescape") for text in spellings if text.strip()]


def bare(text: str) -> str:
    """Without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES else text


_URL_SAFE = str.maketrans("-_", "+/")


def from_base64(text: str) -> bytes:
    """Either alphabet, with its padding or without; empty where it is no base64."""
    text = text.rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def judged_time(timestamp: str, now: datetime) -> str:
    """The reason word of a timestamp in Unix seconds: malformed, outside the tolerance, or "" where it is fine."""
    if not _TIMESTAMP.fullmatch(timestamp):
        return "signature_malformed"
    return "timestamp_outside_tolerance" if abs(now.timestamp() - int(timestamp)) > TOLERANCE_SECONDS else ""


def values(header: str, prefix: str) -> list[str]:
    """What follows the prefix in each part of a header that lists several."""
    return [part[len(prefix) :] for part in _APART.split(header) if part.startswith(prefix)]


def hex_hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).hexdigest().encode()


def base64_hmac(key: bytes, message: bytes) -> bytes:
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest())


def any_equal(expected: Sequence[bytes], given: Iterable[bytes]) -> bool:
    """Whether any pair is equal, in a time that does not tell which."""
    found = False
    for theirs in given:
        for mine in expected:
            found |= hmac.compare_digest(mine, theirs)
    return found


def any_signed(keys: Iterable[bytes], signatures: Iterable[bytes], message: bytes) -> bool:
    """Whether any of the Ed25519 signatures was made over the message with the private half of any of the keys."""
    public = [Ed25519PublicKey.from_public_bytes(bytes(key)) for key in keys if len(key) == PUBLIC_KEY_BYTES]
    for signature in signatures:
        if len(signature) != ED25519_SIGNATURE_BYTES:
            continue
        for key in public:
            try:
                key.verify(signature, message)
            except InvalidSignature:
                continue
            return True
    return False


def as_bytes(value: str) -> bytes:
    """A header's bytes as they came: servers hand them to us as Latin-1."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def refused(reason: str) -> Verification:
    return Verification(reason)


def verdict(is_genuine: bool) -> Verification:
    return Verification("" if is_genuine else "signature_wrong")
