"""Forget what is old, in bounded chunks, and never without having counted it first.

An event goes when every delivery of it is final and old enough: delivered or discarded after EVENT_RETENTION_DAYS,
dead letters after DEAD_LETTER_RETENTION_DAYS (never fewer than 14). Its figures are added to `DailyTotal` in the same
transaction, so `accounting` balances before, during and after. Attempts are partitions, dropped by
`delivery.maintenance.partitions`. It must never take an event with a delivery that still waits.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from delivery import lifecycle
from delivery.models import DailyTotal, Delivery, Event, LatencyBucket, StatsMinute
from delivery.states import FINAL_STATES, State
from kernel.models import IDEMPOTENCY_WINDOW, IdempotencyRecord

CHUNK = 1_000
LATENCY_DAYS = 8
STATS_DAYS = 30

log = structlog.get_logger(__name__)


@dataclass
class Pruned:
    """How much went. `is_done` is False where the time budget ended first; call again."""

    events: int = 0
    deliveries: int = 0
    dead_letters: int = 0
    minutes: int = 0
    idempotency_records: int = 0
    is_done: bool = True


def prune(*, now: datetime, budget_seconds: float = 60.0, dry_run: bool = False) -> Pruned:
    """Remove what is past its time, oldest first, for at most `budget_seconds`."""
    pruned = Pruned()
    if dry_run:
        pruned.events = _old_events(now, after=0).count()
        return pruned
    deadline = time.monotonic() + budget_seconds
    last = 0
    while time.monotonic() < deadline:
        ids = list(_old_events(now, after=last).values_list("id", flat=True)[:CHUNK])
        if not ids:
            _prune_minutes(now, pruned)
            break
        freed = _remove(ids, now, pruned)
        if freed:
            lifecycle.give_turn(freed)  # after the commit: health rows are locked before deliveries
        last = ids[-1]
    else:
        pruned.is_done = False
    if pruned.events:
        log.info("pruned", events=pruned.events, deliveries=pruned.deliveries, dead_letters=pruned.dead_letters)
    return pruned


def _cutoffs(now: datetime) -> tuple[datetime, datetime]:
    dead_days = max(14, settings.DEAD_LETTER_RETENTION_DAYS)
    return now - timedelta(days=settings.EVENT_RETENTION_DAYS), now - timedelta(days=dead_days)


def _old_events(now: datetime, after: int) -> QuerySet[Event]:
    cutoff, dead_cutoff = _cutoffs(now)
    kept = Delivery.objects.filter(event=OuterRef("pk")).exclude(
        Q(state__in=[State.DELIVERED, State.CANCELLED], finished_at__lt=cutoff)
        | Q(state=State.DEAD_LETTER, finished_at__lt=dead_cutoff)
    )
    return Event.objects.filter(~Exists(kept), created_at__lt=cutoff, id__gt=after).order_by("id")


def _remove(ids: list[int], now: datetime, pruned: Pruned) -> list[tuple[int, str]]:
    """One chunk: lock, judge again (a replay or a redrive may have come), count, delete; all or nothing.

    Returns the (endpoint, ordering key) of dead letters that went: what they held back may go.
    """
    with transaction.atomic():
        locked = list(Event.objects.select_for_update().filter(id__in=ids).order_by("id").values_list("id", flat=True))
        # The deliveries too: a redrive under way is waited for, and one that comes later finds nothing to redrive.
        owed = Delivery.objects.select_for_update(of=("self",)).filter(event_id__in=locked).order_by("id")
        list(owed.values_list("id", flat=True))
        still_old = list(_old_events(now, after=0).filter(id__in=locked).values_list("id", flat=True))
        if not still_old:
            return []
        _roll_up(still_old, pruned)
        deliveries = Delivery.objects.filter(event_id__in=still_old, state__in=FINAL_STATES)
        in_the_way = deliveries.filter(state=State.DEAD_LETTER).exclude(ordering_key="")
        freed = list(in_the_way.values_list("endpoint_id", "ordering_key").distinct())
        Delivery.objects.filter(replay_of__in=deliveries.values("id")).exclude(event_id__in=still_old).update(
            replay_of=None
        )
        pruned.deliveries += deliveries._raw_delete("default")
        pruned.events += Event.objects.filter(id__in=still_old)._raw_delete("default")
    return freed


def _roll_up(ids: list[int], pruned: Pruned) -> None:
    totals: dict[tuple[date, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for created_at, who, owed in Event.objects.filter(id__in=ids).values_list(
        "created_at", "subscriber", "delivery_count"
    ):
        total = totals[created_at.astimezone(UTC).date(), who]
        total["recorded"] += owed
        total["unmatched"] += int(owed == 0)
    states = (
        Delivery.objects.filter(event_id__in=ids)
        .order_by()
        .values_list("event__created_at", "event__subscriber", "state", "is_replay")
        .annotate(n=Count("id"))
    )
    names = {State.DELIVERED: "delivered", State.DEAD_LETTER: "dead", State.CANCELLED: "discarded"}
    for created_at, who, state, is_replay, number in states:
        total = totals[created_at.astimezone(UTC).date(), who]
        total[names[State(state)]] += number
        total["recorded"] += number if is_replay else 0
        pruned.dead_letters += number if state == State.DEAD_LETTER else 0
    for (day, who), total in sorted(totals.items()):
        DailyTotal.objects.get_or_create(day=day, subscriber=who)
        DailyTotal.objects.filter(day=day, subscriber=who).update(
            **{name: F(name) + number for name, number in total.items()}
        )


def _prune_minutes(now: datetime, pruned: Pruned) -> None:
    for model, days in ((LatencyBucket, LATENCY_DAYS), (StatsMinute, STATS_DAYS)):
        pruned.minutes += _delete_old(model.objects.filter(minute__lt=now - timedelta(days=days)))
    records = IdempotencyRecord.objects.filter(created_at__lt=now - IDEMPOTENCY_WINDOW)
    pruned.idempotency_records = _delete_old(records)


def _delete_old(rows: QuerySet) -> int:
    removed = 0
    while ids := list(rows.order_by().values_list("pk", flat=True)[: CHUNK * 10]):
        removed += rows.order_by().filter(pk__in=ids)._raw_delete("default")  # still old, whatever came meanwhile
    return removed
