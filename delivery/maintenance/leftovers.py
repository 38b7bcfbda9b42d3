"""What a deleted endpoint leaves behind: waiting deliveries are cancelled, dead letters settled as was asked.

Kept (where nothing was asked): they stay, no alert counts them, and they can be settled later. Discarded: given up for
good. Moved: the same events, under the same ids, are owed to another endpoint of the subscriber, and the dead letters
are cancelled with a word of where they went; what that endpoint has or waits for already is not sent to it twice.

Works in chunks, each one transaction: a dead letter is cancelled and owed anew in one of them, or neither. What is
left when the time is over, and what dies afterwards in the air, `sweep` does.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef

from delivery import lifecycle, replays
from delivery.engine import outbox
from delivery.models import Delivery, Endpoint, lean
from delivery.states import WAITING_STATES, DeadLetters, State
from kernel import audit

CHUNK = 1_000
SWEEP_BUDGET_SECONDS = 20.0
DELETED = "its endpoint was deleted"
HAS_IT = (*WAITING_STATES, State.IN_FLIGHT.value, State.DELIVERED.value)

log = structlog.get_logger(__name__)


@dataclass
class Settled:
    """How many went which way. `is_done` is False where the time was over first: the sweep goes on."""

    cancelled: int = 0
    discarded: int = 0
    moved: int = 0
    had_already: int = 0
    is_done: bool = True


def settle(endpoint_id: int, *, actor: str, reason: str = "", budget_seconds: float) -> Settled:
    """Cancel what waits for this deleted endpoint, and settle its dead letters as its row says."""
    deadline, done = time.monotonic() + budget_seconds, Settled()
    while cancelled := lifecycle.cancel_for_endpoint(endpoint_id, actor=actor, reason=DELETED):
        done.cancelled += cancelled
        if time.monotonic() > deadline:
            done.is_done = False
            return done
    while _settle_some(endpoint_id, done, actor, reason or DELETED):
        if time.monotonic() > deadline:
            done.is_done = False
            break
    return done


def _settle_some(endpoint_id: int, done: Settled, actor: str, reason: str) -> bool:
    """One chunk; False where there is nothing left to do."""
    with transaction.atomic():
        row = Endpoint.objects.only("dead_letters", "dead_letters_to").get(pk=endpoint_id)
        if row.dead_letters == DeadLetters.MOVE:
            return _move_some(endpoint_id, row.dead_letters_to_id, done, actor, reason)
        if row.dead_letters != DeadLetters.DISCARD:
            return False
        found = _some(endpoint_id)
        done.discarded += len(lifecycle.discarded(found, actor=actor, reason=reason))
        return bool(found)


def _move_some(endpoint_id: int, to: int | None, done: Settled, actor: str, reason: str) -> bool:
    """Lock order: the target, the events (as retention does), the deliveries."""
    rows = Endpoint.objects.select_for_update(no_key=True).filter(pk=to or 0, deleted_at=None)
    target = lean(rows).first()
    if target is None:
        _keep(endpoint_id, to)
        return False
    event_of = _some(endpoint_id)
    outbox.hold_events(sorted(set(event_of.values())))
    gone = lifecycle.moved(event_of, to=target.pk, actor=actor, reason=reason)
    dead_of = {event_of[pk]: pk for pk in sorted(gone)}
    has = Delivery.objects.filter(endpoint=target, event_id__in=dead_of, state__in=HAS_IT)
    has_it = set(has.values_list("event_id", flat=True))
    wanted = [event for event in dead_of if event not in has_it]
    made = replays.owe(target.pk, wanted, actor=actor, reason=reason, replay_of=dead_of)
    done.moved += len(made)
    done.had_already += len(gone) - len(made)
    return bool(event_of)


def _keep(endpoint_id: int, to: int | None) -> None:
    """Where they were to go was deleted too: nobody's wish any more, so nothing is lost."""
    Endpoint.objects.filter(pk=endpoint_id).update(dead_letters=DeadLetters.KEEP, dead_letters_to=None)
    audit.record("roundtrip", "keep_dead_letters", "endpoint", [endpoint_id], f"endpoint {to} was deleted too")
    log.warning("dead_letters_kept", endpoint=endpoint_id, to=to)


def _some(endpoint_id: int) -> dict[int, int]:
    """Some dead letters of the endpoint, each with its event, oldest first."""
    rows = Delivery.objects.filter(endpoint_id=endpoint_id, state=State.DEAD_LETTER).order_by("pk")
    return dict(rows.values_list("pk", "event_id")[:CHUNK])


def sweep(budget_seconds: float = SWEEP_BUDGET_SECONDS) -> int:
    """Go on with what a deletion had no time for, or what died in the air after it. Returns how many were settled."""
    dead = Delivery.objects.filter(endpoint=OuterRef("pk"), state=State.DEAD_LETTER)
    wished = Endpoint.objects.filter(deleted_at__isnull=False).exclude(dead_letters=DeadLetters.KEEP)
    deadline, total = time.monotonic() + budget_seconds, 0
    for endpoint_id in wished.filter(Exists(dead)).order_by("pk").values_list("pk", flat=True):
        done = settle(endpoint_id, actor="sweep", budget_seconds=max(0.0, deadline - time.monotonic()))
        total += done.discarded + done.moved + done.had_already
    return total
