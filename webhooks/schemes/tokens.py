"""Secrets that the sender repeats: nothing is signed, so the fetch is the proof."""

from collections.abc import Sequence
from datetime import datetime

from webhooks.schemes.base import (
    Scheme,
    SignedCall,
    Verification,
    any_equal,
    as_bytes,
    from_base64,
    plain_keys,
    refused,
    verdict,
)


def shared_token(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """`Authorization: Bearer`, `Authorization: Basic` (the secret is `user:password`), or `?token=` in the URL."""
    given = _credentials(call.headers.get("authorization", ""))
    given += [call.token.encode("utf-8", "surrogatepass")] if call.token else []
    if not given:
        return refused("signature_missing")
    return verdict(any_equal(keys, given))


def _credentials(header: str) -> list[bytes]:
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return [as_bytes(value)]
    pair = from_base64(value) if scheme.lower() == "basic" else b""
    return [pair] if b":" in pair else []


SHARED_TOKEN = Scheme(shared_token, ("authorization",), plain_keys)
