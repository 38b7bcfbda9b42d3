"""Standard Webhooks v1, both ends of it: signing the provider's webhooks, checking what the receiver gets.

Written apart from the product on purpose: two implementations that agree prove more than one that agrees with itself.
"""

from __future__ import annotations

import base64
import binascii
import hmac

TOLERANCE_SECONDS = 300  # Standard Webhooks, "Verifying webhook authenticity"


def secret_bytes(secret: str) -> bytes:
    """The key inside `whsec_<base64>`. Raises ValueError for anything else, also for an empty key."""
    prefix, _, encoded = secret.partition("_")
    if prefix != "whsec" or not encoded:
        raise ValueError("it does not start with whsec_")
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError("what follows whsec_ is not base64") from None
    if not key:
        raise ValueError("the key is empty")
    return key


def sign(key: bytes, webhook_id: bytes, timestamp: bytes, body: bytes) -> bytes:
    """The value of `webhook-signature` for one key."""
    digest = hmac.digest(key, b"%b.%b.%b" % (webhook_id, timestamp, body), "sha256")
    return b"v1," + binascii.b2a_base64(digest, newline=False)


def verify(
    keys: tuple[bytes, ...], webhook_id: bytes, timestamp: bytes, signatures: bytes, body: bytes, now: float
) -> bool:
    """True when one of the space-separated signatures was made with one of the keys, not too long ago."""
    try:
        age = now - int(timestamp)
    except ValueError:
        return False
    if not -TOLERANCE_SECONDS <= age <= TOLERANCE_SECONDS:
        return False
    offered = signatures.split(b" ")
    for key in keys:
        expected = sign(key, webhook_id, timestamp, body)
        if any(hmac.compare_digest(expected, signature) for signature in offered):
            return True
    return False
