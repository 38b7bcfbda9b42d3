"""Schemes that send an HMAC-SHA256 of the body, with or without a time: GitHub, Stripe, Slack, Shopify.

The secret is the key as it is, also where it begins with `whsec_`, as Stripe's does.
"""

from collections.abc import Sequence
from datetime import datetime

from webhooks.schemes.base import (
    Scheme,
    SignedCall,
    Verification,
    any_equal,
    as_bytes,
    base64_hmac,
    hex_hmac,
    judged_time,
    plain_keys,
    refused,
    values,
    verdict,
)


def github(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """GitHub's and Outscraper's: `X-Hub-Signature-256: sha256=<hex>` over the body."""
    header = call.headers.get("x-hub-signature-256", "")
    if not header:
        return refused("signature_missing")
    given = [part.lower() for part in values(header, "sha256=")]
    if not given:
        return refused("signature_malformed")
    return verdict(any_equal([hex_hmac(key, call.body) for key in keys], map(as_bytes, given)))


def stripe(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """`Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>]` over `t.body`; several `v1` while a secret is rolled."""
    header = call.headers.get("stripe-signature", "")
    if not header:
        return refused("signature_missing")
    times, given = values(header, "t="), values(header, "v1=")
    if len(times) != 1 or not given:
        return refused("signature_malformed")
    return _timed(call, keys, now, times[0], f"{times[0]}.", given)


def slack(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """`X-Slack-Signature: v0=<hex>` over `v0:time:body`, the time being `X-Slack-Request-Timestamp`."""
    header = call.headers.get("x-slack-signature", "")
    timestamp = call.headers.get("x-slack-request-timestamp", "")
    if not (header and timestamp):
        return refused("signature_missing")
    given = values(header, "v0=")
    if not given:
        return refused("signature_malformed")
    return _timed(call, keys, now, timestamp, f"v0:{timestamp}:", given)


def _timed(
    call: SignedCall, keys: Sequence[bytes], now: datetime, timestamp: str, before: str, given: Sequence[str]
) -> Verification:
    late = judged_time(timestamp, now)
    if late == "signature_malformed":
        return refused(late)
    signed = before.encode() + call.body
    if not any_equal([hex_hmac(key, signed) for key in keys], map(as_bytes, given)):
        return refused("signature_wrong")
    return Verification(late)


def shopify(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    """`X-Shopify-Hmac-Sha256: <base64>` over the body; the client secret, and the old one while it is rotated."""
    header = call.headers.get("x-shopify-hmac-sha256", "").strip()
    if not header:
        return refused("signature_missing")
    return verdict(any_equal([base64_hmac(key, call.body) for key in keys], [as_bytes(header)]))


GITHUB = Scheme(github, ("x-hub-signature-256",), plain_keys)
STRIPE = Scheme(stripe, ("stripe-signature",), plain_keys)
SLACK = Scheme(slack, ("x-slack-signature", "x-slack-request-timestamp"), plain_keys)
SHOPIFY = Scheme(shopify, ("x-shopify-hmac-sha256",), plain_keys)
