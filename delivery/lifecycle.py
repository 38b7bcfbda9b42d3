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
from django.db.models import DateTimeField, F, Func, IntegerField
from django.db.models.functions import Cast, Least
from django.utils import timezone

from delivery import events
from delivery.engine import claims, waiting
from delivery.engine.bounds import SMALL_MOST, text
from delivery.engine.wake import wake
from delivery.errors import WrongState
from delivery.models import Delivery, Endpoint, EndpointHealth
from delivery.policy.catalogue import ENDPOINT_DISABLED, ENDPOINT_NEEDS_ATTENTION
from delivery.states import WAITING_STATES, BreakerState, State, WaitReason
from kernel import audit
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
    return len(redriven(ids, actor=actor, reason=reason))


def redriven(ids: Iterable[int], *, actor: str, reason: str) -> dict[int, str]:
    """`redrive`, for whoever keeps an account of each: answers who moved, with the fingerprint of its old failure."""
    with transaction.atomic():
        rows = _locked(ids, (State.DEAD_LETTER.value,), endpoint__deleted_at__isnull=True)
        Delivery.objects.filter(pk__in=list(rows)).update(
            state=State.PENDING,
            attempt_count=0,
            throttle_count=0,
            throttled_at=None,
            rescue_count=0,
            redrive_count=Least(Cast("redrive_count", IntegerField()) + 1, SMALL_MOST),
            next_attempt_at=_Clock(),
            finished_at=None,
            fingerprint="",
        )
        _tell("redrive", list(rows), actor, reason)
        if rows:
            wake()
    return rows


def discard(ids: Iterable[int], *, actor: str, reason: str) -> int:
    """Dead and waiting deliveries are given up for good (`cancelled`). Returns how many were.

    What is in flight or final is left alone.
    """
    return len(_cancel(ids, (State.DEAD_LETTER.value, *WAITING_STATES), "discard", actor=actor, reason=reason))


def discarded(ids: Iterable[int], *, actor: str, reason: str) -> dict[int, str]:
    """`discard` of dead letters only: answers who moved, with the fingerprint of its failure."""
    return _cancel(ids, (State.DEAD_LETTER.value,), "discard", actor=actor, reason=reason)


def moved(ids: Iterable[int], *, to: int, actor: str, reason: str) -> dict[int, str]:
    """Dead letters whose events are owed to another endpoint instead: cancelled, and they say where they went."""
    states = (State.DEAD_LETTER.value,)
    return _cancel(ids, states, "move", actor=actor, reason=reason, why=f"moved to endpoint {to}")


def cancel_for_endpoint(endpoint_id: int, *, actor: str, reason: str, limit: int = 2_000) -> int:
    """Cancel up to `limit` of an endpoint's waiting deliveries; call again until it returns 0.

    What is in flight ends by itself.
    """
    waiting = Delivery.objects.filter(endpoint_id=endpoint_id, state__in=WAITING_STATES)
    ids = waiting.order_by("next_attempt_at").values_list("pk", flat=True)[:limit]
    return len(_cancel(ids, WAITING_STATES, "cancel_for_endpoint", actor=actor, reason=reason))


def _cancel(
    ids: Iterable[int], states: Sequence[str], verb: str, *, actor: str, reason: str, why: str = ""
) -> dict[int, str]:
    ids, why = list(ids), why or reason or f"by {actor}"
    with transaction.atomic():
        ordered = Delivery.objects.filter(pk__in=ids).exclude(ordering_key="")
        keys = sorted(set(ordered.values_list("endpoint_id", "ordering_key")))
        _lock_health({endpoint_id for endpoint_id, _ in keys})
        rows = _locked(ids, states)
        # Beside the last error, not over it: why the receiver never got it is asked later.
        Delivery.objects.filter(pk__in=list(rows)).update(
            state=State.CANCELLED, finished_at=_Clock(), cancel_reason=text(why, 200)
        )
        if keys and claims.promote(keys):
            wake()
        _tell(verb, list(rows), actor, reason)
    return rows


def give_turn(keys: Iterable[tuple[int, str]]) -> int:
    """Make the first unfinished delivery of each (endpoint, ordering key) due, if it is parked. Returns how many."""
    pairs = sorted(set(keys))
    with transaction.atomic():
        _lock_health({endpoint_id for endpoint_id, _ in pairs})
        promoted = claims.promote(pairs)
        if promoted:
            touched("deliveries", "stats")
            wake()
    return promoted


def forget_order(endpoint_id: int) -> int:
    """Its ordering key has changed or gone: what is unfinished is sent without waiting for one another.

    Returns how many unfinished deliveries had a value of it.
    """
    with transaction.atomic():
        _lock_health({endpoint_id})
        freed = waiting.forget_order(endpoint_id)
        if freed:
            touched("deliveries", "stats")
            wake()
    return freed


def send_now(delivery_id: int, *, actor: str, reason: str = "") -> None:
    """A waiting delivery is due at once, without its back-off. Raises WrongState, whose words say what to do instead.

    It never goes past a hold, an open breaker or a wait that the receiver asked for.
    """
    with transaction.atomic():
        row = Delivery.objects.select_for_update(no_key=True, of=("self",)).get(pk=delivery_id)
        if refusal := _why_not_now(row):
            raise WrongState(refusal)
        Delivery.objects.filter(pk=row.pk).update(next_attempt_at=Least(F("next_attempt_at"), _Clock()))
        _tell("send_now", [row.pk], actor, reason)
        wake()


NOT_NOW = {
    State.DELIVERED.value: "It is delivered by now. To send it once more, replay its event from the endpoint.",
    State.IN_FLIGHT.value: "It is being sent right now.",
    State.DEAD_LETTER.value: "It is a dead letter: redrive it instead.",
    State.CANCELLED.value: "It was given up on purpose. To send it after all, replay its event from the endpoint.",
}
ENDPOINT_HELD = {
    "deleted": "Its endpoint was deleted.",
    "disabled": "Its endpoint is disabled: correct the cause, then enable it.",
    "needs_attention": "Its endpoint needs attention: correct the cause, then resume it.",
    "paused": "Its endpoint is paused: resume it.",
}


def _why_not_now(row: Delivery) -> str:
    """In words, why this delivery cannot be sent at once; "" where it can."""
    if row.state in NOT_NOW:
        return NOT_NOW[row.state]
    states = ("paused_at", "disabled_at", "attention_at", "deleted_at")
    endpoint = Endpoint.objects.only(*states).get(pk=row.endpoint_id)
    if endpoint.state in ENDPOINT_HELD:
        return ENDPOINT_HELD[endpoint.state]
    if row.awaits_turn and (first := in_front_of(row)):
        out = ": redrive or discard that one first" if first.state == State.DEAD_LETTER else ""
        return f"It waits its turn behind delivery {first.pk}, which is {first.get_state_display()}{out}."
    health, now = EndpointHealth.objects.get(pk=row.endpoint_id), timezone.now()
    if health.throttled_until and health.throttled_until > now:
        return _waits(health)
    if health.breaker_state != BreakerState.CLOSED:
        when = f" at {health.probe_at:%H:%M:%S} UTC" if health.probe_at and health.probe_at > now else " any moment"
        return f"Its endpoint's breaker is {health.get_breaker_state_display()}; one probe goes{when}, then the rest."
    return ""


def _waits(health: EndpointHealth) -> str:
    until = f"{health.throttled_until:%Y-%m-%d %H:%M:%S} UTC"
    if health.wait_reason == WaitReason.UNUSABLE:
        return f"Its endpoint's settings cannot be used: correct and save the endpoint. We look again at {until}."
    if health.wait_reason == WaitReason.OWN_FAULT:
        return f"A fault on our side keeps its endpoint waiting until {until}: see the endpoint's page."
    return f"The receiver asked us to wait until {until}. Lift the endpoint's throttle to send sooner."


def in_front_of(row: Delivery) -> Delivery | None:
    """The first unfinished delivery of its ordering key, if that is another one."""
    if not row.ordering_key:
        return None
    unfinished = (*WAITING_STATES, State.IN_FLIGHT.value, State.DEAD_LETTER.value)
    earlier = Delivery.objects.filter(
        endpoint_id=row.endpoint_id, ordering_key=row.ordering_key, state__in=unfinished, pk__lt=row.pk
    )
    return earlier.order_by("pk").first()


def _locked(ids: Iterable[int], states: Sequence[str], **conditions: object) -> dict[int, str]:
    """Lock those of `ids` that are in one of `states`, in id order; with the fingerprint of each."""
    rows = Delivery.objects.filter(pk__in=list(ids), state__in=list(states), **conditions)
    locked = rows.select_for_update(no_key=True, of=("self",)).order_by("pk")
    return dict(locked.values_list("pk", "fingerprint"))


def _lock_health(endpoint_ids: Iterable[int]) -> None:
    rows = EndpointHealth.objects.filter(pk__in=list(endpoint_ids)).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk", flat=True))


def _tell(verb: str, rows: Sequence[int], actor: str, reason: str) -> None:
    if not rows:
        return
    audit.record(actor, verb, "delivery", rows, reason)
    log.info("deliveries_" + verb, count=len(rows), first=rows[0], actor=actor, reason=reason)
    touched("deliveries", "stats", *[f"delivery:{pk}" for pk in rows[:TOUCHED_MOST]])


# --- what policy does to an endpoint ------------------------------------------------------------------------------


def disable_endpoint(endpoint_id: int, *, reason: str, now: datetime | None = None) -> bool:
    """Policy's switch: nothing is sent any more until a person enables it; its deliveries are held. Announced once."""
    return _hold(endpoint_id, "disabled_at", ENDPOINT_DISABLED, reason, now)


def need_attention(endpoint_id: int, *, reason: str, now: datetime | None = None) -> bool:
    """Refusals in a row: held until a person corrects the endpoint and presses Resume. Announced once."""
    return _hold(endpoint_id, "attention_at", ENDPOINT_NEEDS_ATTENTION, reason, now)


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
