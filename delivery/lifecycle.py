"""The states of a delivery and the verbs that people and sweeps may use. The engine's own verbs are in `engine.claims`.

                 claim                 settle: 2xx
    pending ───────────────▶ in_flight ───────────▶ delivered
     ▲  │                     │  ▲  │
     │  │ cancel     transient│  │  │ permanent, attempts used up, poison
     │  ▼                     ▼  │  ▼
     │ cancelled ◀── cancel ─ failed  dead_letter ◀── held too long (from pending or failed)
     │     ▲                             │  │
     │     └────────── discard ──────────┘  │
     └───────────────── redrive ────────────┘
    in_flight ── lease expired: rescue ──▶ failed (five in a row: dead_letter `poison`)
    in_flight ── worker stops: release ──▶ pending or failed, as it was

Every verb is one transaction and a guarded UPDATE: rows that are not in the state it expects are left alone and not
counted. Lock order everywhere: endpoints, health rows, deliveries in id order. Ordered deliveries: whoever takes one
out of its key's way makes the next due, under the endpoint's health lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import structlog
from django.db import transaction
from django.db.models import DateTimeField, F, Func
from django.utils import timezone

from delivery import events
from delivery.engine import claims
from delivery.engine.wake import wake
from delivery.models import Delivery, Endpoint, EndpointHealth
from delivery.states import WAITING_STATES, State
from kernel.live_hints import touched

log = structlog.get_logger(__name__)
TOUCHED_MOST = 200


class _Clock(Func):
    """The database's clock: what the claim compares with."""

    function = "clock_timestamp"
    output_field = DateTimeField()
    arity = 0


def redrive(ids: Iterable[int], *, actor: str, reason: str) -> int:
    """Dead letters go out again: new attempts, same event id. Returns how many of them were dead letters.

    Those whose endpoint was deleted stay as they are; a held endpoint's wait for it.
    """
    with transaction.atomic():
        rows = _locked(ids, (State.DEAD_LETTER.value,), endpoint__deleted_at__isnull=True)
        Delivery.objects.filter(pk__in=rows).update(
            state=State.PENDING,
            attempt_count=0,
            throttle_count=0,
            throttled_at=None,
            rescue_count=0,
            redrive_count=F("redrive_count") + 1,
            next_attempt_at=_Clock(),
            finished_at=None,
            fingerprint="",
        )
        _tell("redrive", rows, actor, reason)
        if rows:
            wake()
    return len(rows)


def discard(ids: Iterable[int], *, actor: str, reason: str) -> int:
    """Dead and waiting deliveries are given up for good (`cancelled`). Returns how many were.

    What is in flight or final is left alone.
    """
    return _cancel(ids, (State.DEAD_LETTER.value, *WAITING_STATES), "discard", actor=actor, reason=reason)


def cancel_for_endpoint(endpoint_id: int, *, actor: str, reason: str, limit: int = 2_000) -> int:
    """Cancel up to `limit` of an endpoint's waiting deliveries; call again until it returns 0.

    What is in flight ends by itself.
    """
    waiting = Delivery.objects.filter(endpoint_id=endpoint_id, state__in=WAITING_STATES)
    ids = waiting.order_by("next_attempt_at").values_list("pk", flat=True)[:limit]
    return _cancel(ids, WAITING_STATES, "cancel_for_endpoint", actor=actor, reason=reason)


def _cancel(ids: Iterable[int], states: Sequence[str], verb: str, *, actor: str, reason: str) -> int:
    ids = list(ids)
    with transaction.atomic():
        ordered = Delivery.objects.filter(pk__in=ids).exclude(ordering_key="")
        keys = sorted(set(ordered.values_list("endpoint_id", "ordering_key")))
        _lock_health({endpoint_id for endpoint_id, _ in keys})
        rows = _locked(ids, states)
        Delivery.objects.filter(pk__in=rows).update(
            state=State.CANCELLED, finished_at=_Clock(), last_error=f"Cancelled: {reason}"[:300]
        )
        if keys and claims.promote(keys):
            wake()
        _tell(verb, rows, actor, reason)
    return len(rows)


def _locked(ids: Iterable[int], states: Sequence[str], **conditions: object) -> list[int]:
    """Lock those of `ids` that are in one of `states`, in id order."""
    rows = Delivery.objects.filter(pk__in=list(ids), state__in=list(states), **conditions)
    return list(rows.select_for_update(no_key=True, of=("self",)).order_by("pk").values_list("pk", flat=True))


def _lock_health(endpoint_ids: Iterable[int]) -> None:
    rows = EndpointHealth.objects.filter(pk__in=list(endpoint_ids)).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk", flat=True))


def _tell(verb: str, rows: Sequence[int], actor: str, reason: str) -> None:
    if not rows:
        return
    log.info("deliveries_" + verb, count=len(rows), first=rows[0], actor=actor, reason=reason)
    touched("deliveries", "stats", *[f"delivery:{pk}" for pk in rows[:TOUCHED_MOST]])


# --- what policy does to an endpoint ------------------------------------------------------------------------------


def disable_endpoint(endpoint_id: int, *, reason: str, now: datetime | None = None) -> bool:
    """Policy's switch: nothing is sent any more until a person enables it; its deliveries are held. Announced once."""
    return _hold(endpoint_id, "disabled_at", "endpoint.disabled", reason, now)


def need_attention(endpoint_id: int, *, reason: str, now: datetime | None = None) -> bool:
    """Refusals in a row: held until a person corrects the endpoint and presses Resume. Announced once."""
    return _hold(endpoint_id, "attention_at", "endpoint.needs_attention", reason, now)


def _hold(endpoint_id: int, field: str, event_type: str, reason: str, now: datetime | None) -> bool:
    now = now or timezone.now()
    with transaction.atomic():
        held = Endpoint.objects.filter(pk=endpoint_id, **{f"{field}__isnull": True}).update(
            **{field: now}, hold_reason=reason[:200], version=F("version") + 1, updated_at=now
        )
        if not held:
            return False
        endpoint = Endpoint.objects.only("name", "host", "subscriber").get(pk=endpoint_id)
        data = {"endpoint": str(endpoint_id), "name": endpoint.name, "host": endpoint.host, "reason": reason}
        events.record(event_type, {**data, "subscriber": endpoint.subscriber})  # for the operators' own endpoints
        log.warning(event_type.replace(".", "_"), endpoint=endpoint_id, host=endpoint.host, reason=reason)
        touched(f"endpoint:{endpoint_id}", "alerts", "stats")
    return True
