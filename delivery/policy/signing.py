"""Standard Webhooks signatures (v1.0.0): `v1` HMAC-SHA256 and `v1a` Ed25519, several keys at a time.

Pure. It signs bytes as they are and never parses or re-serialises a payload. Secrets come in as text (`whsec_…`,
`whsk_…`), their decoded keys are cached, and only key ids (a short hash) ever leave for logs and attempts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets as random_secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

HMAC_PREFIX, PRIVATE_PREFIX, PUBLIC_PREFIX = "whsec_", "whsk_", "whpk_"
TOLERANCE_SECONDS = 300
MAX_SIGNATURES = 20
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64


class SecretInvalid(ValueError):
    """A secret or key that cannot be used; `code` is the reason word, `detail` says what is expected."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Key:
    """One decoded key. `key_id` names it without telling it."""

    scheme: str
    key_id: str
    hmac_key: bytes = field(default=b"", repr=False)
    private: Ed25519PrivateKey | None = field(default=None, repr=False)
    public: Ed25519PublicKey | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Signed:
    """The value of `webhook-signature`, and which keys it was made with (comma-separated ids)."""

    signature: str
    key_ids: str


def new_secret(scheme: str = "v1") -> tuple[str, str]:
    """(secret, public key or ""): a fresh random secret for `v1`, a fresh key pair for `v1a`."""
    if scheme == "v1":
        return HMAC_PREFIX + base64.b64encode(random_secrets.token_bytes(32)).decode(), ""
    if scheme != "v1a":
        raise SecretInvalid("scheme", f"Unknown signature scheme {scheme!r}: use v1 or v1a.")
    private = Ed25519PrivateKey.generate()
    seed, public = private.private_bytes_raw(), private.public_key().public_bytes_raw()
    return PRIVATE_PREFIX + base64.b64encode(seed + public).decode(), _public_text(public)


def public_key_of(secret: str) -> str:
    """The `whpk_…` of a `whsk_…`, for the receiver; "" for an HMAC secret."""
    key = load_key(secret)
    return _public_text(key.public.public_bytes_raw()) if key.public is not None else ""


def scheme_of(secret: str) -> str:
    """Which scheme this secret signs with. Raises SecretInvalid with the reason, so forms use it to check."""
    return load_key(secret).scheme


@lru_cache(maxsize=16_384)
def load_key(text: str) -> Key:
    """Decode a secret or public key. Raises SecretInvalid (`prefix`, `base64`, `length`)."""
    if text.startswith(HMAC_PREFIX):
        raw = _decode(text[len(HMAC_PREFIX) :])
        if not MIN_KEY_BYTES <= len(raw) <= MAX_KEY_BYTES:
            raise SecretInvalid("length", f"A secret holds {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes, not {len(raw)}.")
        return Key("v1", _key_id(raw), hmac_key=raw)
    if text.startswith(PRIVATE_PREFIX):
        raw = _decode(text[len(PRIVATE_PREFIX) :])
        if len(raw) not in (32, 64):  # the seed alone, or seed and public key, as Svix writes it
            raise SecretInvalid("length", "An Ed25519 private key holds 32 or 64 bytes.")
        private = Ed25519PrivateKey.from_private_bytes(raw[:32])
        public = private.public_key()
        if len(raw) == 64 and raw[32:] != public.public_bytes_raw():
            raise SecretInvalid("mismatch", "The two halves of this Ed25519 key do not belong together.")
        return Key("v1a", _key_id(public.public_bytes_raw()), private=private, public=public)
    if text.startswith(PUBLIC_PREFIX):
        raw = _decode(text[len(PUBLIC_PREFIX) :])
        if len(raw) != 32:
            raise SecretInvalid("length", "An Ed25519 public key holds 32 bytes.")
        return Key("v1a", _key_id(raw), public=Ed25519PublicKey.from_public_bytes(raw))
    raise SecretInvalid("prefix", "A secret begins with whsec_ (HMAC) or whsk_ (Ed25519).")


def sign(secrets: Iterable[str], message_id: str, timestamp: int, body: bytes) -> Signed:
    """Sign the exact body with every live secret; `timestamp` is this attempt's, in Unix seconds."""
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    keys = [load_key(secret) for secret in secrets]
    return Signed(" ".join([_sign(key, content) for key in keys]), ",".join([key.key_id for key in keys]))


def verify(keys: Sequence[str], message_id: str, timestamp: str, signatures: str, body: bytes, *, now: float) -> str:
    """The id of the key that one of the signatures was made with, or "".

    `keys` are secrets or public keys. Also "" outside of the tolerance of five minutes, or for what cannot be read;
    it never raises for anything a stranger sent.
    """
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 15):
        return ""
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return ""
    return proves(keys, message_id, int(timestamp), signatures, body)


def proves(keys: Sequence[str], message_id: str, timestamp: int, signatures: str, body: bytes) -> str:
    """Like `verify`, at any time: does an attempt's stored signature belong to these bytes and this key?"""
    content = b"%b.%d.%b" % (message_id.encode("utf-8", "surrogateescape"), timestamp, body)
    decoded = [load_key(key) for key in keys]
    for entry in signatures.split(" ")[:MAX_SIGNATURES]:
        scheme, _, text = entry.partition(",")
        for key in decoded:
            if key.scheme == scheme and _matches(key, content, text):
                return key.key_id
    return ""


def _sign(key: Key, content: bytes) -> str:
    if key.scheme == "v1":
        digest = hmac.digest(key.hmac_key, content, "sha256")
        return "v1," + binascii.b2a_base64(digest, newline=False).decode()
    if key.private is None:
        raise SecretInvalid("public", "A public key cannot sign.")
    return "v1a," + base64.b64encode(key.private.sign(content)).decode()


def _matches(key: Key, content: bytes, text: str) -> bool:
    try:
        given = base64.b64decode(text, validate=True)
    except ValueError:
        return False
    if key.scheme == "v1":
        return hmac.compare_digest(hmac.digest(key.hmac_key, content, "sha256"), given)
    try:
        assert key.public is not None
        key.public.verify(given, content)
    except InvalidSignature:
        return False
    return True


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise SecretInvalid("base64", "What follows the prefix is not base64.") from None


def _public_text(raw: bytes) -> str:
    return PUBLIC_PREFIX + base64.b64encode(raw).decode()


def _key_id(raw: bytes) -> str:
    return hashlib.sha256(b"roundtrip key id\x00" + raw).hexdigest()[:8]
