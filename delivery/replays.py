"""Replay: old events to an endpoint again, as new deliveries with the same event (so the same `webhook-id`).

Works for delivered, dead and unmatched events alike, also to an endpoint that did not exist then. It inserts, and
never touches an existing delivery. One call makes at most `MOST` deliveries and says where to go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.db.models.functions import Now

from delivery import events
from delivery.endpoint_rules import InvalidEndpoint
from delivery.engine import outbox
from delivery.engine.wake import wake
from delivery.models import Delivery, Endpoint, Event, endpoint_label
from delivery.policy.catalogue import ENDPOINT_TEST
from delivery.states import WAITING_STATES, State
from kernel import audit, clock
from kernel.counting import OctetLength
from kernel.database import windows
from kernel.live_hints import touched

UNFINISHED = (*WAITING_STATES, State.IN_FLIGHT.value)
LATELY = timedelta(days=1)  # what an endpoint got before that, it is meant to get again
MOST = 10_000
CHUNK = 1_000
READ_BYTES = 8 * 1024 * 1024  # of payloads at once
READ_MOST = 1024 * 1024  # of one; a larger one is looked into by the database: read here it takes ten times its size
NOTHING: Mapping[int, int] = {}

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Replayed:
    """How many deliveries were made. `next_after` is the event to go on after, None when all are done."""

    deliveries: int
    next_after: int | None
    first_delivery: int | None = None


def events_for(
    endpoint: Endpoint,
    *,
    event_ids: Sequence[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    types: Sequence[str] | None = None,
) -> QuerySet[Event]:
    """The events a replay would send: those named, or those recorded in [since, until) that the endpoint wants.

    Never another subscriber's. `types` takes the place of the endpoint's own filter; an empty list of them, or of ids,
    names no event.
    """
    rows = Event.objects.filter(subscriber=endpoint.subscriber)
    if event_ids is not None:
        return rows.filter(pk__in=event_ids)
    if since is None:
        raise InvalidEndpoint(
            [{"field": "since", "code": "required", "detail": "Name the events, or the time to replay from."}]
        )
    if types is not None and not types:
        return rows.none()
    rows = rows.filter(created_at__gte=since, created_at__lt=clock.now() if until is None else until)
    return rows.filter(of_types(endpoint.event_types if types is None else types)).exclude(type=ENDPOINT_TEST)


def of_types(wanted: Sequence[str]) -> Q:
    """As `delivery.events` fans out: exact types, and prefixes that end in `*`; none at all means every type."""
    matches = Q()
    for text in wanted:
        matches |= Q(type__startswith=text[:-1]) if text.endswith("*") else Q(type=text)
    return matches


def replay(
    endpoint: Endpoint | int,
    *,
    actor: str,
    reason: str = "",
    event_ids: Sequence[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    types: Sequence[str] | None = None,
    after: int = 0,
    limit: int = MOST,
) -> Replayed:
    """Owe these events to the endpoint once more, oldest first. Call again with `after=next_after` for the rest."""
    pk = endpoint if isinstance(endpoint, int) else endpoint.pk
    target = Endpoint.objects.get(pk=pk, deleted_at=None)
    wanted = events_for(target, event_ids=event_ids, since=since, until=until, types=types)
    made, first, last = 0, None, after
    while made < limit:
        chunk = list(wanted.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[: min(CHUNK, limit - made)])
        if not chunk:
            break
        last = chunk[-1]
        rows = _insert(target, chunk)
        made += len(rows)
        first = first or (rows[0].pk if rows else None)
    more = wanted.filter(pk__gt=last).exists()
    audit.record(actor, "replay", "endpoint", [target.pk], reason, detail={"made": made})
    log.info("operator_verb", verb="endpoint.replay", actor=actor, reason=reason, made=made, **endpoint_label(target))
    return Replayed(made, last if more else None, first)


def owe(
    endpoint_id: int,
    event_ids: Sequence[int],
    *,
    actor: str,
    reason: str,
    replay_of: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Replay these events, all in one transaction: event → the delivery that was made. `replay_of` says of which
    earlier one, for each event.

    Another subscriber's events are left out; nothing is made where the endpoint was deleted.
    """
    target = Endpoint.objects.filter(pk=endpoint_id, deleted_at=None).first()
    if target is None:
        return {}
    ids = events_for(target, event_ids=event_ids).order_by("pk").values_list("pk", flat=True)
    rows = _insert(target, list(ids), replay_of or {})
    label = endpoint_label(target)
    log.info("operator_verb", verb="endpoint.replay", actor=actor, reason=reason, made=len(rows), **label)
    return {row.event_id: row.pk for row in rows}


@dataclass(frozen=True)
class AlreadyThere:
    """Of the events a replay names: how many wait for the endpoint right now, and how many it got lately."""

    waiting: int
    sent: int
    last_sent_at: datetime | None

    def words(self, now: datetime) -> list[str]:
        """Sentences for whoever is about to send them once more; none where nothing would come twice."""
        said = []
        if self.waiting:
            waits = "waits" if self.waiting == 1 else "wait"
            said.append(f"{self.waiting:,} of these already {waits} for this endpoint and will be sent once more.")
        if self.sent and self.last_sent_at:
            was, ago = "was" if self.sent == 1 else "were", _ago(now - self.last_sent_at)
            said.append(f"{self.sent:,} of these {was} sent to it within the last day, the latest {ago} ago.")
        return said


def already_there(endpoint_id: int, wanted: QuerySet[Event], now: datetime) -> AlreadyThere:
    """What a replay of `wanted` would send twice, as far as the newest of the endpoint's deliveries say."""
    waiting, sent, last = Q(state__in=UNFINISHED), Q(delivered_at__gte=now - LATELY), Max("delivered_at")
    newest = windows.of(Delivery.objects.filter(endpoint_id=endpoint_id), is_by_id=False).rows
    owed = newest.filter(event__in=wanted.order_by().values("pk"))
    row = owed.filter(waiting | sent).aggregate(
        waiting=Count("event", distinct=True, filter=waiting),
        sent=Count("event", distinct=True, filter=sent),
        last=last,
    )
    return AlreadyThere(row["waiting"], row["sent"], row["last"])


def _ago(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for unit, name in ((3600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {name}{'s' if number != 1 else ''}"
    return f"{seconds} seconds"


def _insert(endpoint: Endpoint, ids: list[int], replay_of: Mapping[int, int] = NOTHING) -> list[Delivery]:
    with transaction.atomic():
        standing = outbox.hold_events(ids)
        values = _ordering_values(sorted(standing), endpoint.ordering_key) if endpoint.ordering_key else {}
        rows = Delivery.objects.bulk_create(
            [
                Delivery(
                    event_id=pk,
                    endpoint=endpoint,
                    is_replay=True,
                    replay_of_id=replay_of.get(pk),
                    next_attempt_at=Now(),  # the database's clock judges what is due
                    ordering_key=values.get(pk, ""),
                )
                for pk in sorted(standing)
            ]
        )
        wake()
        touched("deliveries", "stats", f"endpoint:{endpoint.pk}")
    return rows


def _ordering_values(ids: list[int], path: str) -> dict[int, str]:
    """The value of the ordering key in each of these events. Reads the payloads a few megabytes at a time, and of
    large ones, which were recorded under other limits, nothing but the value."""
    sizes = Event.objects.filter(pk__in=ids).order_by("pk").annotate(size=OctetLength("payload"))
    found: dict[int, str] = {}
    few: list[int] = []
    room = READ_BYTES
    for pk, size in sizes.values_list("pk", "size"):
        if size > READ_MOST:
            found[pk] = events.as_key(outbox.value_text(pk, path.split(".")))
            continue
        if few and size > room:
            found |= _values_of(few, path)
            few, room = [], READ_BYTES
        few.append(pk)
        room -= size
    return found | _values_of(few, path)


def _values_of(ids: list[int], path: str) -> dict[int, str]:
    rows = Event.objects.filter(pk__in=ids).only("payload")
    return {event.pk: events.ordering_value(event, path) for event in rows}
