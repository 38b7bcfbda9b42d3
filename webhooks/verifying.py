"""Who sent a call: its address where the account has a list, then its signature by the scheme of the adapter."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.db import InterfaceError, OperationalError

from webhooks.models import Refusal
from webhooks.refusals import Call
from webhooks.schemes import SignedCall, Verification, verify
from webhooks.schemes.callers import may_call


def verified(call: Call, content: bytes, token: str, now: datetime) -> Verification:
    """By the secrets we have; where none fits, once more by those that the provider gives now, if it gives others."""
    provider = call.source.provider
    if not may_call(call.remote_addr or "", provider.callback_networks):
        return Verification(Refusal.ADDRESS_NOT_ALLOWED.value)
    try:
        secrets = list(provider.secrets())
        verification = _by_secrets(call, content, token, secrets, now)
        if verification.reason != Refusal.SIGNATURE_WRONG:
            return verification
        renewed = [secret for secret in provider.renewed_secrets() if secret not in secrets]
    except (InterfaceError, OperationalError):
        raise
    except Exception:  # noqa: BLE001 - whatever ails the adapter, the provider must send again; the check says what
        return Verification(Refusal.SECRETS_UNAVAILABLE.value)
    return _by_secrets(call, content, token, renewed, now) if renewed else verification


def _by_secrets(call: Call, content: bytes, token: str, secrets: Sequence[str], now: datetime) -> Verification:
    """Signed are the bytes as sent; some senders sign first and compress then."""
    scheme = call.source.provider.scheme
    signed = SignedCall(call.raw, call.headers, token, call.url)
    verification = verify(scheme, signed, secrets, now)
    if verification.is_genuine or content is call.raw:
        return verification
    return verify(scheme, replace(signed, body=content), secrets, now)
