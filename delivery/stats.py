"""The one-row summary of all deliveries (specification S2.9), cheap at any size. SQL: held snapshots.

Counts stop at `counting.LIMIT` rows and are then the planner's estimate, of one subscriber where a window does; both
are named in `estimated`. What happened in the last hour comes from `StatsMinute`, never from a scan. `pending` and
`awaiting_retry` leave out what is *held* (its endpoint is paused, disabled, in need of attention, or its breaker is
open, or it waits as its receiver asked), so that neither a paused nor a throttled endpoint hides a stuck queue, or
looks like one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count as RowCount
from django.db.models import F, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Now

from delivery.models import Delivery, Endpoint, StatsMinute
from delivery.policy.outcomes import SUCCESSES
from delivery.states import WAITING_STATES, BreakerState, State
from kernel import counting
from kernel.counting import Count, among, capped, count, estimate
from kernel.database import windows

HELD_SNAPSHOT_SECONDS = 300
SLOW_MOST = 500
HELD = Q(is_held=True) | Q(health__breaker_state=BreakerState.OPEN) | Q(health__throttled_until__gt=Now())


def delivery_summary(subscriber: str | None = None, *, now: datetime) -> dict[str, Any]:
    """The keys of S2.9, and `held`, `oldest_held*`, `estimated`, `warnings`. Ages in seconds, times ISO 8601 UTC.

    `oldest_pending` is how long the longest-waiting unheld delivery has been due; None when nothing is due.
    """
    estimated: list[str] = []
    held = _held_counts(subscriber, estimated)
    summary: dict[str, Any] = {
        "pending": _all_in(State.PENDING, subscriber, estimated, "pending") - held[State.PENDING],
        "awaiting_retry": _all_in(State.FAILED, subscriber, estimated, "awaiting_retry") - held[State.FAILED],
        "in_flight": _all_in(State.IN_FLIGHT, subscriber, estimated, "in_flight"),
        "dead_letter": _all_in(State.DEAD_LETTER, subscriber, estimated, "dead_letter"),
        "held": sum(held.values()),
    }
    for name in ("pending", "awaiting_retry"):  # the two counts are taken one after the other
        summary[name] = max(0, summary[name])
    summary |= _last_hour(subscriber, now)
    summary |= _age("oldest_pending", oldest_due(subscriber, held=False), now)
    summary |= _age("oldest_held", oldest_due(subscriber, held=True), now)
    summary["estimated"] = sorted(set(estimated))
    summary["warnings"] = warnings()
    return summary


def warnings() -> list[str]:
    """What slows everything down and is seen nowhere else: a snapshot that somebody holds keeps dead rows alive."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity"
            " WHERE backend_xmin IS NOT NULL AND datname = current_database() AND pid <> pg_backend_pid()"
        )
        seconds = float(cursor.fetchone()[0] or 0)
    if seconds < HELD_SNAPSHOT_SECONDS:
        return []
    return [
        f"A database session has held a snapshot for {seconds / 60:.0f} minutes; claiming slows down until it ends. "
        "Find it in pg_stat_activity by its xact_start, and end it."
    ]


def oldest_due(subscriber: str | None = None, *, held: bool) -> datetime | None:
    """When the longest-waiting delivery fell due: of the held endpoints, or of all others.

    One probe of the due index for each endpoint, so it does not matter how many rows wait there.
    """
    first = (
        Delivery.objects.filter(endpoint=OuterRef("pk"), state__in=WAITING_STATES)
        .order_by("next_attempt_at")
        .values("next_attempt_at")[:1]
    )
    endpoints = _endpoints(subscriber).filter(HELD if held else ~HELD)
    return endpoints.annotate(first_due=Subquery(first)).aggregate(oldest=Min("first_due"))["oldest"]


def held_endpoint_ids(subscriber: str | None = None) -> list[int]:
    return list(_endpoints(subscriber).filter(HELD).values_list("pk", flat=True))


def waiting_at(endpoint_id: int) -> Count:
    """Waiting deliveries of an endpoint."""
    return capped(Delivery.objects.filter(endpoint_id=endpoint_id, state__in=WAITING_STATES))


def unfinished_at(endpoint_id: int, most: int) -> dict[str, Count]:
    """Of an endpoint, how many wait, are under way or are dead letters; each count capped at `most`.

    Those that wait share an index, so they are counted together: among the first `most` that are due.
    """
    mine = Delivery.objects.filter(endpoint_id=endpoint_id)
    counts = _waiting_by_state(mine.filter(state__in=WAITING_STATES), most)
    for state in (State.IN_FLIGHT, State.DEAD_LETTER):
        counts[state.value] = capped(mine.filter(state=state), most)
    return counts


def _waiting_by_state(waiting: QuerySet[Delivery], most: int) -> dict[str, Count]:
    found = dict(among(waiting, most).values_list("state").annotate(count=RowCount("pk")))
    is_capped = sum(found.values()) >= most and capped(waiting, most).is_capped
    return {state: Count(found.get(state, 0), is_capped) for state in WAITING_STATES}


def _endpoints(subscriber: str | None) -> QuerySet[Endpoint]:
    return Endpoint.objects.all() if subscriber is None else Endpoint.objects.filter(subscriber=subscriber)


def _all_in(state: State, subscriber: str | None, estimated: list[str], name: str) -> int:
    rows = Delivery.objects.filter(state=state)
    if subscriber is None:
        number, is_estimate = count(rows)
    else:
        window = windows.of(rows.filter(endpoint__subscriber=subscriber), is_by_id=False)
        number, is_estimate = window.rows.count(), window.is_cut
    if is_estimate:
        estimated.append(name)
    return number


def _held_counts(subscriber: str | None, estimated: list[str]) -> dict[State, int]:
    ids = held_endpoint_ids(subscriber)
    counts = {State.PENDING: 0, State.FAILED: 0}
    if not ids:
        return counts
    # Both states together, so that the partial due index serves, and what is read has an end.
    waiting = Delivery.objects.filter(endpoint_id__in=ids, state__in=WAITING_STATES)
    found = _waiting_by_state(waiting, counting.LIMIT)
    for state in counts:
        counts[state] = found[state].number
        if found[state].is_capped:
            counts[state] = max(counts[state], estimate(waiting.filter(state=state)))
            estimated += ["held", "pending" if state == State.PENDING else "awaiting_retry"]
    return counts


def _last_hour(subscriber: str | None, now: datetime) -> dict[str, Any]:
    rows = StatsMinute.objects.filter(minute__gte=now - timedelta(hours=1), minute__lte=now)
    if subscriber is not None:
        rows = rows.filter(endpoint__subscriber=subscriber)
    success = Q(outcome__in=[str(outcome) for outcome in SUCCESSES])
    totals = rows.aggregate(
        delivered=Sum("count", filter=success),
        failed=Sum("count", filter=~success),
        ms=Sum("total_ms", filter=success),
    )
    delivered = totals["delivered"] or 0
    return {
        "delivered_last_hour": delivered,
        "failed_last_hour": totals["failed"] or 0,
        "avg_delivery_ms_last_hour": round(totals["ms"] / delivered, 1) if delivered else None,
    }


def _age(name: str, since: datetime | None, now: datetime) -> dict[str, Any]:
    if since is None or since > now:
        return {name: None, f"{name}_at": None}
    return {name: round((now - since).total_seconds(), 1), f"{name}_at": since.isoformat()}


def success_last_day(endpoint_ids: Iterable[int], now: datetime) -> dict[int, tuple[int, int]]:
    """For each endpoint (successes, attempts) of the last 24 h. Two figures from one grouped read."""
    success = Q(outcome__in=[str(outcome) for outcome in SUCCESSES])
    rows = (
        StatsMinute.objects.filter(endpoint_id__in=list(endpoint_ids), minute__gte=now - timedelta(hours=24))
        .order_by()
        .values("endpoint_id")
        .annotate(good=Sum("count", filter=success, default=0), total=Sum("count"))
    )
    return {row["endpoint_id"]: (row["good"], row["total"]) for row in rows}


def slow_endpoints(*, p95_ms: float = 2_000, samples: int = 20, subscriber: str | None = None) -> list[dict[str, Any]]:
    """Endpoints whose p95 of the last 24 h is above `p95_ms`, the 500 slowest, slowest first (specification S2.8)."""
    rows = (
        _endpoints(subscriber)
        .filter(deleted_at=None, health__p95_ms__gt=p95_ms, health__sample_count__gte=samples)
        .order_by("-health__p95_ms")
        .values(
            "id",
            "name",
            "host",
            "subscriber",
            p50_ms=F("health__p50_ms"),
            p95_ms=F("health__p95_ms"),
            p99_ms=F("health__p99_ms"),
            sample_count=F("health__sample_count"),
            p95_day_before_ms=F("health__p95_day_before_ms"),
            phases=F("health__phases"),
            measured_at=F("health__measured_at"),
        )
    )
    return [dict(row) for row in rows[:SLOW_MOST]]
