"""The verbs of an endpoint's secrets: rotate, end. Which secrets sign and until when is `endpoint_secrets`' to say."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from delivery import endpoint_secrets
from delivery.endpoint_changes import changed, locked, look_again, save
from delivery.endpoint_rules import InvalidEndpoint
from delivery.models import Endpoint
from delivery.policy import signing

SECRET_OVERLAP = timedelta(hours=24)
KEYS = ("secret", "earlier_secrets", "secret_changed_at", "public_key", "rotation_token")


def rotate_secret(
    endpoint: Endpoint | int,
    *,
    actor: str,
    reason: str = "",
    secret: str = "",
    signature_scheme: str = "",
    overlap: timedelta = SECRET_OVERLAP,
    token: str = "",
) -> Endpoint:
    """A new secret (made by us unless brought along), on the returned object. The one before it signs until `overlap`
    is over, those before that until the time that was promised for them.

    `token` names the page it was asked on: asked twice by one page, it is rotated once, and the answer is the same.
    A secret that leaked is rotated with no overlap, or ended by `end_secret`. Raises InvalidEndpoint, WrongState.
    """
    with transaction.atomic():
        current = locked(endpoint)
        if token and token == current.rotation_token:
            return current
        scheme, now = signature_scheme or current.signature_scheme, current.read_at
        fresh, public_key = secret_for(secret, scheme)
        current.earlier_secrets = endpoint_secrets.rotated(current, fresh, overlap, now)
        current.secret, current.public_key, current.signature_scheme = fresh, public_key, scheme
        current.secret_changed_at, current.rotation_token = now, token
        save(current, *KEYS, "signature_scheme")
        look_again(current)
        changed(current, "rotate_secret", actor, reason, overlap_seconds=int(overlap.total_seconds()))
    return current


def end_secret(endpoint: Endpoint | int, key_id: str, *, actor: str, reason: str = "") -> Endpoint:
    """An earlier secret, named by its id, signs no more from now on: it has leaked. Raises WrongState for the last."""
    with transaction.atomic():
        current = locked(endpoint)
        current.earlier_secrets = endpoint_secrets.without(current, key_id, current.read_at)
        save(current, "earlier_secrets")
        changed(current, "end_secret", actor, reason, key_id=key_id)
    return current


def secret_for(secret: str, scheme: str) -> tuple[str, str]:
    """(secret, public key) to store; a secret that was brought along must fit the scheme."""
    try:
        if not secret:
            return signing.new_secret(scheme)
        if signing.scheme_of(secret) != scheme or secret.startswith(signing.PUBLIC_PREFIX):
            raise signing.SecretInvalid("scheme", "Scheme v1 needs a whsec_… secret, v1a a whsk_… private key.")
        return secret, signing.public_key_of(secret)
    except signing.SecretInvalid as error:
        raise InvalidEndpoint([{"field": "secret", "code": error.code, "detail": error.detail}]) from None
