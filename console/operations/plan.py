"""Plan and steer an operation: preview, create, pause, resume, cancel. Each is one guarded transaction, audited.

The set is frozen at creation: its ids are written down, so what was targeted is what is done, skipped or failed in the
end, whoever else moves the same rows.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Max
from django.utils import timezone

from console.models import Operation
from console.operations import filters, sets
from console.operations.verbs import VERBS, BulkVerb
from console.wake import RUN_OPERATIONS
from kernel import audit
from kernel.api.problems import BadInput, Conflict, Problem
from kernel.live_hints import touched
from kernel.wakeups import after_commit

CANARY = 5
SAMPLES = 20
State = Operation.State


@dataclass(frozen=True)
class Preview:
    """What an operation would touch, if it were created now. `warnings` are sentences to read before."""

    filter: dict[str, Any]
    target_count: int
    watermark: int
    sample_ids: list[int]
    warnings: list[str]


def preview(verb: str, asked: dict[str, Any], subscriber: str | None, now: datetime) -> Preview:
    """Count and look, change nothing."""
    known, kept = _verb(verb), pinned_for(verb, asked, subscriber, now)
    rows = known.rows(kept, subscriber)
    row = rows.order_by().aggregate(count=Count("pk"), top=Max("pk"))
    samples = list(rows.order_by("pk").values_list("pk", flat=True)[:SAMPLES])
    return Preview(kept, row["count"], row["top"] or 0, samples, known.warnings(kept, subscriber, now))


def pinned_for(verb: str, asked: dict[str, Any], subscriber: str | None, now: datetime) -> dict[str, Any]:
    """The filter as it is kept. A key bound to one subscriber that names another is refused, not given its own rows."""
    known = _verb(verb)
    kept = filters.pinned(known.allowed, known.required, asked, now)
    if subscriber is not None and kept.get("subscriber", subscriber) != subscriber:
        raise OtherSubscriber(f"filter.subscriber: this key is bound to subscriber {subscriber!r}.")
    return kept


class OtherSubscriber(Problem):
    status = 403
    code = "other_subscriber"
    title = "This belongs to another subscriber"


def create(
    verb: str,
    asked: dict[str, Any],
    *,
    actor: str,
    reason: str,
    subscriber: str | None = None,
    rate: int | None = None,
    canary: bool = False,
    now: datetime | None = None,
    user: Any = None,
) -> Operation:
    """Freeze the set and start it. BadInput where the filter or the canary makes no sense."""
    now = now or timezone.now()
    known = _verb(verb)
    if canary and not known.can_have_canary:
        raise BadInput("canary: only a redrive can have one.", code="canary_not_possible")
    kept = pinned_for(verb, asked, subscriber, now)
    with transaction.atomic():
        rows, warnings = known.rows(kept, subscriber), known.warnings(kept, subscriber, now)
        operation = Operation.objects.create(
            verb=verb,
            filter=kept,
            subscriber=subscriber or "",
            reason=reason[:300],
            actor=actor[:100],
            rate_per_second=rate,
            canary_size=CANARY if canary else 0,
            detail=" ".join(warnings),
            is_frozen=True,
        )
        operation.target_count, operation.watermark = sets.freeze(operation.pk, rows)
        operation.save(update_fields=["target_count", "watermark"])
        count = operation.target_count
        if not count and known.says_why_none and warnings:
            raise Conflict(f"Nothing would be done: {warnings[0]}", code="nothing_to_do")
        audit.record(actor, verb, "operation", [operation.pk], reason, count=count, detail=kept, user=user)
        touched(f"operation:{operation.pk}", "stats")
        after_commit(RUN_OPERATIONS)
    return operation


def _verb(verb: str) -> BulkVerb:
    try:
        return VERBS[verb]
    except KeyError:
        raise BadInput(f"verb: use one of {', '.join(VERBS)}.", code="unknown_verb") from None


def pause(operation: Operation, *, actor: str) -> None:
    _steer(operation, "pause_operation", actor, (State.RUNNING,), state=State.PAUSED)


def resume(operation: Operation, *, actor: str) -> None:
    """Go on where it stopped. After its canary stopped it, a person has decided: the canary is over."""
    changes: dict[str, Any] = {"state": State.RUNNING, "detail": ""}
    if operation.state == State.STOPPED:
        changes["canary_state"] = "overruled"
    _steer(operation, "resume_operation", actor, (State.PAUSED, State.STOPPED), **changes)


def cancel(operation: Operation, *, actor: str) -> None:
    """What is done stays done; the rest is left alone."""
    _steer(
        operation,
        "cancel_operation",
        actor,
        (State.RUNNING, State.PAUSED, State.STOPPED),
        state=State.CANCELLED,
        finished_at=timezone.now(),
    )


def _steer(operation: Operation, verb: str, actor: str, states: tuple[str, ...], **changes: Any) -> None:
    with transaction.atomic():
        if not Operation.objects.filter(pk=operation.pk, state__in=states).update(**changes):
            operation.refresh_from_db(fields=["state"])
            raise Conflict(f"This operation is {operation.get_state_display()}.", code="wrong_state")
        if changes.get("state") == State.CANCELLED:
            sets.forget(operation.pk)
        audit.record(actor, verb, "operation", [operation.pk])
        touched(f"operation:{operation.pk}")
        after_commit(RUN_OPERATIONS)
    operation.refresh_from_db()
