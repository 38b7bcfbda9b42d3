"""Standard Webhooks (https://www.standardwebhooks.com, and Svix, its older name): `v1` HMAC-SHA256, `v1a` Ed25519.

Both sign `id.timestamp.body`. A sender may sign with several keys, and both ways, at once; one that fits will do.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from webhooks.schemes.base import (
    PUBLIC_KEY_BYTES,
    PublicKey,
    Scheme,
    SignedCall,
    Verification,
    any_equal,
    any_signed,
    as_bytes,
    bare,
    base64_hmac,
    from_base64,
    judged_time,
    refused,
)

LEAST_KEY_BYTES = 24  # "Signature scheme": 24 to 64 bytes
_EVENT_ID = re.compile(r"[!-\-/-~]+")  # printable ASCII without the dot, which separates the signed parts
# Signatures stand side by side, a space between them; two header lines arrive joined by a comma (RFC 9110 §5.3). No
# base64 has either, so each `v1,…` is found wherever it begins. The look-ahead lets them overlap.
_LIVE = re.compile(r"(?<![^\s,])v1,(?=([^\s,]+))")
_LIVE_PUBLIC = re.compile(r"(?<![^\s,])v1a,(?=([^\s,]+))")


def judge(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    event_id, timestamp, signatures = (
        call.headers.get(f"webhook-{part}") or call.headers.get(f"svix-{part}") or ""
        for part in ("id", "timestamp", "signature")
    )
    if not (event_id and timestamp and signatures):
        return refused("signature_missing")
    late = judged_time(timestamp, now)
    if not _EVENT_ID.fullmatch(event_id) or late == "signature_malformed":
        return refused("signature_malformed")
    signed = f"{event_id}.{timestamp}.".encode() + call.body
    if not _fits(keys, signed, signatures):
        return refused("signature_wrong")
    return refused(late) if late else Verification(event_id=event_id)


def _fits(keys: Sequence[bytes], signed: bytes, signatures: str) -> bool:
    shared = [key for key in keys if not isinstance(key, PublicKey)]
    if any_equal([base64_hmac(key, signed) for key in shared], map(as_bytes, _LIVE.findall(signatures))):
        return True
    public = [key for key in keys if isinstance(key, PublicKey)]
    return bool(public) and any_signed(public, map(from_base64, _LIVE_PUBLIC.findall(signatures)), signed)


def standard_key(secret: str) -> bytes:
    """The key bytes of a `whsec_…` secret (the prefix may be missing); empty if it is not base64.

    White space, quotes around it, missing padding and the URL-safe alphabet leave no doubt what is meant.
    """
    return from_base64(_text(secret).removeprefix("whsec_"))


def _text(secret: str) -> str:
    return bare("".join(secret.split()))


def _public_key(secret: str) -> bytes:
    key = from_base64(_text(secret).removeprefix("whpk_"))
    return key if len(key) == PUBLIC_KEY_BYTES else b""


def keys(secret: str) -> list[bytes]:
    text = _text(secret)
    if text.startswith("whsk_"):
        return []
    if text.startswith("whpk_"):
        public = _public_key(secret)
        return [PublicKey(public)] if public else []
    key = standard_key(secret)
    return [key] if key else []


def fault(secret: str) -> str:
    text = _text(secret)
    if text.startswith("whsk_"):
        return "it is the private half of a v1a key, which only the sender may have: take the public one, whpk_…"
    if text.startswith("whpk_"):
        wanted = f"a v1a public key is whpk_ and base64 of {PUBLIC_KEY_BYTES} bytes"
        return "" if _public_key(secret) else f"{wanted}, and this is not: copy it again, whole"
    if not standard_key(secret):
        return "it is not base64, so no signature can ever fit it: copy it again, whole, as whsec_…"
    return ""


def doubt(secret: str) -> str:
    length = 0 if _text(secret).startswith("whpk_") else len(standard_key(secret))
    if 0 < length < LEAST_KEY_BYTES:
        return f"it has {length} bytes, and Standard Webhooks asks for {LEAST_KEY_BYTES} at least: was it cut off?"
    return ""


STANDARD_WEBHOOKS = Scheme(
    judge,
    tuple(f"{who}-{part}" for who in ("webhook", "svix") for part in ("id", "timestamp", "signature")),
    keys,
    fault,
    doubt,
)
