"""Record events: the outbox. The event and one delivery for each endpoint that wants it, in the caller's transaction.

No event is recorded anywhere else: `record` and `record_many`, `record_for_one` for a test, and `publish` for what
callers bring, which keeps our own types and uids out of their reach. An event's payload is fixed here as the exact
bytes that are signed and sent for ever after. New deliveries of an event that stands are `delivery.replays`'. Nothing
here talks to the broker or to a receiver; after commit the workers are woken.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from delivery.engine import outbox
from delivery.engine.wake import wake
from delivery.errors import InvalidEvent, UidTaken
from delivery.models import Endpoint, Event
from delivery.policy.quotas import EVENTS_PER_CALL
from kernel import correlation, exact_numbers
from kernel.live_hints import touched
from kernel.parsing import MAX_DEPTH, is_too_deep, shown_loads

TYPE = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
UID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_TYPE, MAX_SUBSCRIBER, MAX_KEY = 100, 100, 200
OUR_TYPES = ("task.", "batch.", "alert.", "endpoint.")  # what we say ourselves; a receiver must be able to trust it
OUR_UIDS = ("rt_", "alert_")  # derived uids: whoever could take one in advance would keep our event from being told


@dataclass(slots=True)
class NewEvent:
    """An event to be recorded. `occurred_at` (default: now) is the payload's `timestamp`."""

    type: str
    data: dict[str, Any]
    subscriber: str = ""
    uid: str | None = None
    occurred_at: datetime | None = None
    correlation_id: str | None = None
    caller: str = ""


def publish(new: Sequence[NewEvent]) -> list[Event]:
    """`record_many` for what callers publish: bounded, so that no call takes long or fills the house.

    Raises InvalidEvent also for types and uids that are ours, for an event beyond EVENT_MAX_BYTES, and for a call that
    would make more than DELIVERIES_PER_CALL deliveries. A single event always goes: the number of its subscriber's
    endpoints is bounded already. What we say ourselves is never refused: it carries no results, only where to look.
    """
    if len(new) > EVENTS_PER_CALL:
        words = f"At most {EVENTS_PER_CALL:,} events in one call; these are {len(new):,}. Send them in parts."
        raise InvalidEvent(words, code="too_many_events", field="events")
    for item in new:
        if refused := refused_type(item.type):
            raise InvalidEvent(refused, code="reserved_type", field="type")
        if item.uid and (refused := refused_uid(item.uid)):
            raise InvalidEvent(refused, code="reserved_uid", field="uid")
    limits = _Limits(settings.EVENT_MAX_BYTES, settings.DELIVERIES_PER_CALL)
    return record_many(new, limits)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What one call may bring: bytes of an event, and deliveries of all its events together."""

    event_bytes: int
    deliveries: int

    def refuse_large(self, payload: bytes | memoryview, index: int, count: int) -> None:
        if len(payload) <= self.event_bytes:
            return
        which = "This event" if count == 1 else f"Event {index}"
        words = (
            f"{which} has {len(payload):,} bytes; at most {self.event_bytes:,} may be sent. Put what is large where "
            "the receiver can fetch it, and send its address."
        )
        raise InvalidEvent(words, code="event_too_large", field="data" if count == 1 else f"events.{index}.data")

    def refuse_many(self, fresh: Sequence[Event]) -> None:
        """Judged before anything is written: a call is recorded whole or not at all, in one short transaction."""
        owed = sum(event.delivery_count for event in fresh)
        if len(fresh) == 1 or owed <= self.deliveries:
            return
        words = (
            f"These {len(fresh):,} events would make {owed:,} deliveries; one call may make {self.deliveries:,}. "
            f"Nothing was recorded: send them in calls of {_that_fit(fresh, self.deliveries):,} or fewer."
        )
        raise InvalidEvent(words, code="too_many_deliveries", field="events")


def _that_fit(fresh: Sequence[Event], most: int) -> int:
    """How many events, whichever they are, make no more than so many deliveries."""
    return max(1, most // max(event.delivery_count for event in fresh))


def refused_type(type: str) -> str:
    """Why a caller may not publish this type; "" where he may."""
    if isinstance(type, str) and type.startswith(OUR_TYPES):
        return f"Types that begin with {', '.join(OUR_TYPES)} are Roundtrip's own. Choose another first word."
    return ""


def refused_uid(uid: str) -> str:
    """Why a caller may not give this uid; "" where he may."""
    if isinstance(uid, str) and uid.startswith(OUR_UIDS):
        return f"Uids that begin with {' or '.join(OUR_UIDS)} are Roundtrip's own. Choose another one."
    return ""


@dataclass(slots=True)
class _Wanting:
    """What the fan-out needs of an endpoint."""

    id: int
    types: frozenset[str]
    prefixes: tuple[str, ...]
    ordering_key: str

    def wants(self, event_type: str) -> bool:
        return not (self.types or self.prefixes) or event_type in self.types or event_type.startswith(self.prefixes)


def record(
    type: str,
    data: dict[str, Any],
    *,
    subscriber: str = "",
    uid: str | None = None,
    occurred_at: datetime | None = None,
    correlation_id: str | None = None,
    caller: str = "",
) -> Event:
    """Record one event and its deliveries in the caller's transaction. See `record_many`."""
    return record_many([NewEvent(type, data, subscriber, uid, occurred_at, correlation_id, caller)])[0]


def record_many(new: Sequence[NewEvent], limits: _Limits | None = None) -> list[Event]:
    """Record events, each with a delivery for every endpoint of its subscriber that wants its type.

    Returns them in the order given. A `uid` recorded before with the same type and data gives the event that stands
    (nothing is added). Raises InvalidEvent, or UidTaken where a uid stands for another body; then nothing is recorded.
    """
    now = timezone.now()
    events = [_event(item, now) for item in new]
    if limits:
        for index, event in enumerate(events):
            limits.refuse_large(event.payload, index, len(events))
    # A refusal comes before anything is written, so the caller's transaction lives on; it needs no savepoint for that.
    with nullcontext() if transaction.get_connection().in_atomic_block else transaction.atomic():
        fresh = _insert(events, new, limits)
        if fresh:
            _fan_out(fresh)
    return events


def record_for_one(endpoint_id: int, subscriber: str, type: str, data: dict[str, Any]) -> Event:
    """Record an event with one delivery, to this endpoint, whatever anybody's filter; in the caller's transaction.

    No ordering key: it stands behind nothing, and nothing behind it.
    """
    event = _event(NewEvent(type, data, subscriber), timezone.now())
    event.delivery_count = 1
    outbox.insert_events([event])
    outbox.insert_deliveries([(event.pk, endpoint_id, "")])
    wake()
    return event


def _event(item: NewEvent, now: datetime) -> Event:
    _refuse_bad(item)
    occurred_at = item.occurred_at or now
    payload = payload_bytes(item.type, occurred_at, item.data)
    return Event(
        uid=item.uid or f"evt_{secrets.token_hex(14)}",
        type=item.type,
        subscriber=item.subscriber,
        payload=payload,
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        correlation_id=item.correlation_id or correlation.current(),
        caller=item.caller[:80],
        occurred_at=occurred_at,
        created_at=now,
    )


def payload_bytes(type: str, occurred_at: datetime, data: dict[str, Any]) -> bytes:
    """The exact bytes of `{"type", "timestamp", "data"}` (Standard Webhooks §Payload). Raises InvalidEvent."""
    if is_too_deep(data, MAX_DEPTH - 1):  # the payload is one more around it
        detail = f"The data is nested too deeply: at most {MAX_DEPTH - 1} objects and lists may lie in one another."
        raise InvalidEvent(detail, code="invalid_data", field="data")
    moment = occurred_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    try:
        text = exact_numbers.dumps(
            {"type": type, "timestamp": moment, "data": data},
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        detail = f"The data cannot be written as JSON: {type_name(error)}."
        raise InvalidEvent(detail, code="invalid_data", field="data") from error


def type_name(error: BaseException) -> str:
    """The kind of a fault without its text, which may quote the payload."""
    return {
        "TypeError": "it holds a value that JSON does not know",
        "ValueError": "it holds NaN, infinity or a circle",
        "RecursionError": "it is nested too deeply",
        "UnicodeEncodeError": "it holds half a character (a lone surrogate)",
    }.get(error.__class__.__name__, error.__class__.__name__)


def _refuse_bad(item: NewEvent) -> None:
    if not isinstance(item.type, str) or len(item.type) > MAX_TYPE or not TYPE.fullmatch(item.type):
        detail = "A type is words of letters, digits and _ with dots between them, such as order.paid."
        raise InvalidEvent(detail, code="invalid_type", field="type")
    if item.uid is not None and not UID.fullmatch(item.uid):
        detail = "A uid has 1 to 64 letters, digits, - and _ (Standard Webhooks forbids dots)."
        raise InvalidEvent(detail, code="invalid_uid", field="uid")
    if len(item.subscriber) > MAX_SUBSCRIBER or "\x00" in item.subscriber:
        raise InvalidEvent(
            f"A subscriber has at most {MAX_SUBSCRIBER} characters.", code="invalid_subscriber", field="subscriber"
        )
    if not isinstance(item.data, dict):
        raise InvalidEvent("The data must be a JSON object.", code="invalid_data", field="data")


# --- storing ------------------------------------------------------------------------------------------------------


def _insert(events: list[Event], new: Sequence[NewEvent], limits: _Limits | None) -> list[Event]:
    """Insert what is not there yet; `events` are replaced in place by those that stand. Returns the fresh ones."""
    named = {index for index, item in enumerate(new) if item.uid is not None}
    fresh = _keep_standing(events, new, named) if named else events
    if not fresh:
        return []
    _match(fresh)
    if limits:
        limits.refuse_many(fresh)
    if outbox.insert_events(fresh):  # some were lost to another caller
        _make_way(events, new, named)
    return [event for event in fresh if event.pk is not None]


def _make_way(events: list[Event], new: Sequence[NewEvent], named: set[int]) -> None:
    """Another caller recorded one of the uids at this moment, and has committed: now it stands."""
    try:
        if any(event.pk is None for event in _keep_standing(events, new, named)):
            raise UidTaken("Another transaction records the same uid at this moment. Try again.", field="uid")
    except UidTaken:
        transaction.set_rollback(True)  # the other events of this call are in already, and may not stay
        raise


def _keep_standing(events: list[Event], new: Sequence[NewEvent], named: set[int]) -> list[Event]:
    """Put standing events and twins within this call in their places; the rest, each once, is fresh."""
    keys = {(events[index].subscriber, events[index].uid) for index in named}
    rows = Event.objects.filter(uid__in={uid for _, uid in keys}, subscriber__in={who for who, _ in keys})
    # Compared by their digests: a thousand stored payloads would not fit into memory.
    standing: dict[tuple[str, str], Event] = {(event.subscriber, event.uid): event for event in rows.defer("payload")}
    fresh: list[Event] = []
    for index, event in enumerate(events):
        known = standing.get((event.subscriber, event.uid)) if index in named else None
        if known is None or (event.pk is not None and known.pk == event.pk):
            standing[event.subscriber, event.uid] = event
            fresh.append(event)
        elif _is_same(known, new[index]):
            events[index] = known
        else:
            raise UidTaken(
                f"The uid {event.uid} was recorded with another body. Choose a new uid for a new event.", field="uid"
            )
    return fresh


def _is_same(known: Event, item: NewEvent) -> bool:
    """The same type and data, and the same time where one was given."""
    occurred_at = item.occurred_at or known.occurred_at
    payload = payload_bytes(item.type, occurred_at, item.data)
    return known.payload_sha256 == hashlib.sha256(payload).hexdigest()


# --- fan-out ------------------------------------------------------------------------------------------------------


def _match(events: list[Event]) -> None:
    """Count for each event who wants it, so that what was owed is on record even when rows are gone."""
    wanting = _wanting({event.subscriber for event in events})
    for event in events:
        matches = [endpoint for endpoint in wanting.get(event.subscriber, ()) if endpoint.wants(event.type)]
        event.delivery_count = len(matches)
        event.matches = matches  # type: ignore[attr-defined]


def _wanting(subscribers: Iterable[str]) -> dict[str, list[_Wanting]]:
    """Endpoints that get deliveries, paused and disabled ones too: theirs are held, not lost."""
    rows = (
        Endpoint.objects.filter(subscriber__in=list(subscribers), deleted_at__isnull=True)
        .order_by("id")
        .values_list("id", "subscriber", "event_types", "ordering_key")
    )
    found: dict[str, list[_Wanting]] = {}
    for pk, subscriber, filters, ordering_key in rows:
        types = frozenset(entry for entry in filters if not entry.endswith("*"))
        prefixes = tuple(entry[:-1] for entry in filters if entry.endswith("*"))
        found.setdefault(subscriber, []).append(_Wanting(pk, types, prefixes, ordering_key))
    return found


def _fan_out(events: list[Event]) -> None:
    rows = [
        (event.pk, endpoint.id, values.get(endpoint.ordering_key, ""))
        for event in events
        for values in [_ordering_values(event)]
        for endpoint in event.matches  # type: ignore[attr-defined]
    ]
    for start in range(0, len(rows), outbox.CHUNK):
        outbox.insert_deliveries(rows[start : start + outbox.CHUNK])
    if rows:
        wake()
    touched("deliveries", "stats")


def _ordering_values(event: Event) -> dict[str, str]:
    """By ordering key. The payload is read once for all endpoints, and each key once: both come from outside."""
    paths = {endpoint.ordering_key for endpoint in event.matches} - {""}  # type: ignore[attr-defined]
    envelope = shown_loads(bytes(event.payload)) if paths else None
    return {path: _value_at(envelope, path) for path in paths}


def ordering_value(event: Event, path: str) -> str:
    """The value of the endpoint's ordering key in this event; "" where it has none, and then nothing is ordered."""
    return _value_at(shown_loads(bytes(event.payload)), path)


def _value_at(value: Any, path: str) -> str:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return _key_of(value)


def as_key(found: str | None) -> str:
    """`ordering_value` of what the database found at the path: JSON, or None where there is nothing."""
    return _key_of(None if found is None else shown_loads(found))


def _key_of(value: Any) -> str:
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else exact_numbers.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(text) <= MAX_KEY and "\x00" not in text:
        return text
    return hashlib.sha256(text.encode()).hexdigest()
