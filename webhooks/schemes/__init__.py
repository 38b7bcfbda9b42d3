"""Signature schemes as data: a provider names its scheme, and the table here says how a call is judged by it.

Pure: bytes, headers, secrets and `now` in, a `Verification` out. Nothing here may raise on what a stranger sends, and
nothing here reads the database or the network. Keys that are empty or not decodable never match anything.

Where a scheme signs no time there is none to judge by, so what was once seen on the wire can be sent again. The inbox
therefore tells such events apart by their content, never by an id that anybody could have written beside it.
"""

from collections.abc import Sequence
from datetime import datetime

from webhooks.schemes import addressed, fal, hashes, standard, tokens
from webhooks.schemes.base import TOLERANCE_SECONDS, Scheme, SignedCall, Verification
from webhooks.schemes.standard import standard_key

__all__ = [
    "EVENT_ID_HEADERS",
    "MAX_HEADER_LENGTH",
    "SCHEMES",
    "TOLERANCE_SECONDS",
    "SignedCall",
    "Verification",
    "secret_doubt",
    "secret_fault",
    "standard_key",
    "verify",
]

MAX_HEADER_LENGTH = 4096  # of the headers that a scheme reads; what else travels along is none of its business

SCHEMES: dict[str, Scheme] = {
    "standard_webhooks": standard.STANDARD_WEBHOOKS,
    "hmac_sha256_hex": hashes.GITHUB,
    "stripe": hashes.STRIPE,
    "slack": hashes.SLACK,
    "shopify": hashes.SHOPIFY,
    "twilio": addressed.TWILIO,
    "fal": fal.FAL,
    "shared_token": tokens.SHARED_TOKEN,
}

# What a scheme names an event by, beside its signed parts; kept with the stored event.
EVENT_ID_HEADERS = (
    "webhook-id",
    "webhook-timestamp",
    "svix-id",
    "svix-timestamp",
    "x-github-delivery",
    "x-apify-webhook-dispatch-id",
    "x-shopify-webhook-id",
    "x-fal-webhook-request-id",
    "x-fal-webhook-timestamp",
    "x-slack-request-timestamp",
)


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


def secret_fault(scheme: str, secret: str) -> str:
    """What is wrong with a configured secret under this scheme, in words and without any part of it; "" for nothing."""
    found = SCHEMES.get(scheme)
    if found is None:
        return f"its signature scheme {scheme!r} does not exist"
    return found.fault(secret) if secret.strip() else "it is empty"


def secret_doubt(scheme: str, secret: str) -> str:
    """What looks odd about a secret that can be used, in words; "" for nothing."""
    found = SCHEMES.get(scheme)
    return found.doubt(secret) if found is not None else ""
