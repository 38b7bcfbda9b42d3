"""fal's scheme: Ed25519 over request id, user id, time and the hash of the body; its public keys are a JWKS.

The keys come as the adapter's `secrets`, which asks fal for them. No header names a key, so each is tried. The signed
id is the job's and not the event's, so events are told apart by their content.
"""

import binascii
import hashlib
from collections.abc import Sequence
from datetime import datetime

from webhooks.schemes.base import (
    PUBLIC_KEY_BYTES,
    PublicKey,
    Scheme,
    SignedCall,
    Verification,
    any_signed,
    as_bytes,
    from_base64,
    judged_time,
    refused,
)

_PARTS = ("request-id", "user-id", "timestamp", "signature")


def fal(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    request_id, user_id, timestamp, signature = (call.headers.get(f"x-fal-webhook-{part}", "") for part in _PARTS)
    if not (request_id and user_id and timestamp and signature):
        return refused("signature_missing")
    late = judged_time(timestamp, now)
    try:
        given = binascii.unhexlify(as_bytes(signature.strip()))
    except (binascii.Error, ValueError):
        late = "signature_malformed"
    if late:  # before the signature is looked at: whoever cannot be right must not make us ask for new keys
        return refused(late)
    digest = hashlib.sha256(call.body).hexdigest().encode()
    signed = b"\n".join((as_bytes(request_id), as_bytes(user_id), timestamp.encode(), digest))
    return Verification("" if any_signed(keys, [given], signed) else "signature_wrong")


def keys(secret: str) -> list[bytes]:
    """The `x` of a JSON web key (RFC 8037): base64url of the 32 bytes."""
    key = from_base64("".join(secret.split()))
    return [PublicKey(key)] if len(key) == PUBLIC_KEY_BYTES else []


def fault(secret: str) -> str:
    return "" if keys(secret) else f"it is no Ed25519 public key of {PUBLIC_KEY_BYTES} bytes"


FAL = Scheme(fal, tuple(f"x-fal-webhook-{part}" for part in _PARTS), keys, fault)
