"""A trial delivery: one signed event that a worker sends to a door of our own, for `manage.py doctor`.

It goes the way of every other: a temporary endpoint, the test verb, a worker's claim, the address guard, a signature.
The endpoint takes an answer for a success only if it holds the trial's proof, and only a process of ours that has this
database and these keys can give that; so a delivery that is `delivered` was received, whoever else answers 200 there.
Everything a trial makes is temporary: `remove_all` takes it away, also what an interrupted one left behind.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from delivery import endpoints
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event, lean
from delivery.policy import signing
from delivery.policy.catalogue import ENDPOINT_TEST
from delivery.states import DeadLetters, State
from kernel import audit

SUBSCRIBER = "roundtrip-doctor"
GOOD_FOR = timedelta(minutes=5)
TIMEOUT_MS = 10_000
NAME = "Trial "
_NONCE = re.compile(r"[0-9a-f]{32}")
_WHY = "a trial delivery of manage.py doctor"


@dataclass(frozen=True, slots=True)
class Trial:
    """One under way, by the ids of its rows."""

    endpoint_id: int
    delivery_id: int


def new_nonce() -> str:
    """The name of a trial in its URL: nobody can guess it."""
    return secrets.token_hex(16)


def begin(nonce: str, url: str, *, actor: str) -> Trial:
    """Make the endpoint and send it one test event, which is tried once. Raises InvalidEndpoint for the URL."""
    secret, _public = signing.new_secret()
    with transaction.atomic():
        endpoint = endpoints.create(
            actor=actor,
            reason=_WHY,
            secret=secret,
            name=f"{NAME}{nonce}",
            subscriber=SUBSCRIBER,
            url=url,
            event_types=[ENDPOINT_TEST],
            max_attempts=1,
            timeout_ms=TIMEOUT_MS,
            body_rule={"success": proof_of(secret, nonce)},
        )
        delivery = endpoints.send_test(endpoint, actor=actor, reason=_WHY)
    return Trial(endpoint.pk, delivery.pk)


def secret_of(nonce: str) -> str:
    """What the trial of this name signs with; "" where there is none, or none any more.

    Raises UndecryptableSecret where this process has other master keys than the one that began it.
    """
    if not _NONCE.fullmatch(nonce):
        return ""
    rows = Endpoint.objects.filter(subscriber=SUBSCRIBER, name=f"{NAME}{nonce}", deleted_at=None)
    endpoint = rows.filter(created_at__gte=Now() - GOOD_FOR).only("secret").first()
    return endpoint.secret if endpoint is not None else ""


def proof_of(secret: str, nonce: str) -> str:
    """What the door answers once it has verified the signature."""
    return hmac.new(secret.encode(), f"received {nonce}".encode(), hashlib.sha256).hexdigest()


def outcome(trial: Trial) -> Delivery | None:
    """The delivery as it stands; None where somebody has removed the trial."""
    return Delivery.objects.filter(pk=trial.delivery_id).first()


def remove_all(*, actor: str) -> int:
    """Remove every trial there is; returns how many are left because a request of theirs is in the air. These are
    marked deleted, and the next call removes them."""
    rows = Endpoint.objects.filter(subscriber=SUBSCRIBER, name__startswith=NAME, event_types=[ENDPOINT_TEST])
    left = 0
    for pk in list(rows.order_by("pk").values_list("pk", flat=True)):
        if not _remove(pk, actor):
            left += 1
            _mark_deleted(pk, actor)
    return left


def _remove(endpoint_id: int, actor: str) -> bool:
    """All its rows at once, in the order in which workers lock them; False while a worker has it in the air."""
    with transaction.atomic():
        if not lean(Endpoint.objects.select_for_update().filter(pk=endpoint_id)).exists():
            return True  # another doctor was quicker
        list(EndpointHealth.objects.select_for_update().filter(pk=endpoint_id).values_list("pk", flat=True))
        owed = Delivery.objects.select_for_update(of=("self",)).filter(endpoint_id=endpoint_id).order_by("pk")
        found = list(owed.values_list("pk", "event_id", "state"))
        if any(state == State.IN_FLIGHT for _pk, _event, state in found):
            return False
        Attempt.objects.filter(delivery_id__in=[pk for pk, _event, _state in found]).delete()
        Delivery.objects.filter(pk__in=[pk for pk, _event, _state in found]).delete()
        Event.objects.filter(pk__in=[event for _pk, event, _state in found]).delete()
        Endpoint.objects.filter(pk=endpoint_id).delete()
        audit.record(actor, "remove", "endpoint", [endpoint_id], _WHY)
    return True


def _mark_deleted(endpoint_id: int, actor: str) -> None:
    if Endpoint.objects.filter(pk=endpoint_id, deleted_at=None).exists():
        endpoints.delete(endpoint_id, actor=actor, reason=_WHY, dead_letters=DeadLetters.DISCARD)
