"""Does every event balance? recorded = delivered + waiting + held + dead + discarded + unmatched. SQL: isolation.

`Event.delivery_count` says what was owed; the rows must show it. Replays are owed by the act of making them. Days are
UTC days of recording. What retention removed is in `DailyTotal`. Reads only, from one snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Min, Q, Sum
from django.db.models.functions import Coalesce, Now

from delivery.models import DailyTotal, Delivery, Event
from delivery.states import AWAITS_TURN, WAITING_STATES, BreakerState, State

LISTED = 1_000  # event ids that are named; the count is whole
PARKED_LISTED = 100


@dataclass
class Line:
    """One subscriber's day. Every figure counts deliveries, but `unmatched`, which counts events."""

    day: date
    subscriber: str
    recorded: int = 0
    delivered: int = 0
    waiting: int = 0
    held: int = 0
    dead: int = 0
    discarded: int = 0
    unmatched: int = 0

    @property
    def difference(self) -> int:
        """Recorded, less all that can be shown; 0 where it balances."""
        shown = self.delivered + self.waiting + self.held + self.dead + self.discarded + self.unmatched
        return self.recorded - shown

    def as_dict(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**values, "day": self.day.isoformat(), "difference": self.difference}


@dataclass
class Parked:
    """Deliveries among the waiting ones that stand behind an earlier one with their ordering key."""

    endpoint: int
    host: str
    count: int
    behind: int | None
    behind_state: str = ""

    def __str__(self) -> str:
        who = f"{self.count:,} wait for their turn at endpoint {self.endpoint} ({self.host})"
        if self.behind is None:
            return f"{who} and nothing is in front of them: the next sweep, within a minute, lets them go."
        out = ". Redrive or discard that one to let them go" if self.behind_state == State.DEAD_LETTER else ""
        return f"{who} behind delivery {self.behind}, {State(self.behind_state).label}{out}."


@dataclass
class Account:
    """The lines of a day, the events whose rows do not add up, and what waits for its turn behind what."""

    day: date
    lines: list[Line] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)

    @property
    def difference(self) -> int:
        return sum(line.difference for line in self.lines)

    @property
    def balances(self) -> bool:
        return not self.broken and all(line.difference == 0 for line in self.lines)


def account(day: date, subscriber: str | None = None) -> Account:
    """Balance one UTC day, from one snapshot even while deliveries move."""
    with transaction.atomic():
        _one_snapshot()
        lines: dict[str, Line] = {}
        for row in _pruned(day, subscriber):
            _add(lines, day, row)
        for row in _owed(day, subscriber):
            _add(lines, day, row)
        for row in _standing(day, subscriber):
            _add(lines, day, row)
        standing = [lines[name] for name in sorted(lines)]
        return Account(day, standing, _broken(day, subscriber), _parked(day, subscriber))


def _one_snapshot() -> None:
    """Later statements see what the first saw. Inside a caller's transaction the caller has chosen already."""
    if len(connection.savepoint_ids) == 0:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def _add(lines: dict[str, Line], day: date, row: dict[str, Any]) -> None:
    name = row.pop("who")
    line = lines.setdefault(name, Line(day, name))
    for figure, number in row.items():
        setattr(line, figure, getattr(line, figure) + (number or 0))


def _bounds(day: date) -> tuple[datetime, datetime]:
    start = datetime.combine(day, time(), tzinfo=UTC)
    return start, start + timedelta(days=1)


def _events(day: date, subscriber: str | None) -> Any:
    start, end = _bounds(day)
    rows = Event.objects.filter(created_at__gte=start, created_at__lt=end).order_by()
    return rows if subscriber is None else rows.filter(subscriber=subscriber)


def _pruned(day: date, subscriber: str | None) -> list[dict[str, Any]]:
    """What retention has counted before it removed it. A daily total's `recorded` leaves unmatched events out."""
    rows = DailyTotal.objects.filter(day=day)
    if subscriber is not None:
        rows = rows.filter(subscriber=subscriber)
    figures = ("delivered", "dead", "discarded", "unmatched")
    return [
        {"who": row.subscriber, "recorded": row.recorded + row.unmatched}
        | {name: getattr(row, name) for name in figures}
        for row in rows
    ]


def _owed(day: date, subscriber: str | None) -> list[dict[str, Any]]:
    rows = (
        _events(day, subscriber)
        .values(who=F("subscriber"))
        .annotate(owed=Sum("delivery_count"), unmatched=Count("id", filter=Q(delivery_count=0)))
    )
    return [
        {"who": row["who"], "recorded": row["owed"] + row["unmatched"], "unmatched": row["unmatched"]} for row in rows
    ]


def _standing(day: date, subscriber: str | None) -> list[dict[str, Any]]:
    waiting = Q(state__in=WAITING_STATES)
    is_held = (
        Q(endpoint__is_held=True)
        | Q(endpoint__health__breaker_state=BreakerState.OPEN)
        | Q(endpoint__health__throttled_until__gt=Now())
    )
    start, end = _bounds(day)
    rows = Delivery.objects.filter(event__created_at__gte=start, event__created_at__lt=end).order_by()
    if subscriber is not None:
        rows = rows.filter(event__subscriber=subscriber)
    return [
        dict(row)
        for row in rows.values(who=F("event__subscriber")).annotate(
            recorded=Count("id", filter=Q(is_replay=True)),
            delivered=Count("id", filter=Q(state=State.DELIVERED)),
            held=Count("id", filter=waiting & is_held),
            waiting=Count("id", filter=(waiting & ~is_held) | Q(state=State.IN_FLIGHT)),
            dead=Count("id", filter=Q(state=State.DEAD_LETTER)),
            discarded=Count("id", filter=Q(state=State.CANCELLED)),
        )
    ]


def _broken(day: date, subscriber: str | None) -> list[str]:
    """Uids of events whose deliveries are not as many as were owed; at most LISTED of them."""
    rows = _events(day, subscriber).annotate(
        shown=Coalesce(Count("deliveries", filter=Q(deliveries__is_replay=False)), 0)
    )
    found = rows.exclude(shown=F("delivery_count")).order_by("id")
    return list(found.values_list("uid", flat=True)[:LISTED])


def _parked(day: date, subscriber: str | None) -> list[Parked]:
    """The keys with the most parked deliveries of this day first, up to PARKED_LISTED."""
    start, end = _bounds(day)
    rows = Delivery.objects.filter(
        state__in=WAITING_STATES,
        next_attempt_at__gte=AWAITS_TURN,
        event__created_at__gte=start,
        event__created_at__lt=end,
    )
    if subscriber is not None:
        rows = rows.filter(event__subscriber=subscriber)
    keys = (
        rows.order_by()
        .values("endpoint_id", "endpoint__host", "ordering_key")
        .annotate(n=Count("id"), first=Min("id"))
        .order_by("-n", "first")[:PARKED_LISTED]
    )
    return [_behind(dict(row)) for row in keys]


def _behind(row: dict[str, Any]) -> Parked:
    unfinished = (*WAITING_STATES, State.IN_FLIGHT.value, State.DEAD_LETTER.value)
    earlier = Delivery.objects.filter(
        endpoint_id=row["endpoint_id"], ordering_key=row["ordering_key"], state__in=unfinished, id__lt=row["first"]
    ).order_by("id")
    front = earlier.values_list("id", "state").first() if row["ordering_key"] else None
    return Parked(row["endpoint_id"], row["endpoint__host"], row["n"], *(front or (None,)))
