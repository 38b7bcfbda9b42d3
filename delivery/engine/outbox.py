"""The set-based inserts behind `delivery.events`, in SQL: ten thousand events in a second, not in ten.

Runs in the caller's transaction and decides nothing: what is inserted was judged by `events`. New deliveries are due
by the database's clock, the one that the claim compares with.
"""

from __future__ import annotations

from collections.abc import Sequence

from delivery.engine.sql import execute, literal
from delivery.models import Event

CHUNK = 5_000

_EVENTS = """
INSERT INTO delivery_event (id, uid, type, subscriber, payload, payload_sha256, correlation_id, caller, delivery_count,
                            occurred_at, created_at)
SELECT coalesce(n.id, nextval('delivery_event_id_seq')), n.uid, n.type, n.subscriber, n.payload, n.sha256,
       n.correlation_id, n.caller, n.owed, n.occurred_at, n.created_at
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::text[], %s::text[], %s::text[],
            %s::int[], %s::timestamptz[], %s::timestamptz[])
    AS n(id, uid, type, subscriber, payload, sha256, correlation_id, caller, owed, occurred_at, created_at)
ON CONFLICT DO NOTHING
RETURNING id, subscriber, uid
"""
_DELIVERIES = """
INSERT INTO delivery_delivery (event_id, endpoint_id, ordering_key, state, next_attempt_at, created_at, attempt_count,
    throttle_count, rescue_count, redrive_count, last_outcome, last_error, fingerprint, is_replay)
SELECT event_id, endpoint_id, ordering_key, 'pending', clock_timestamp(), statement_timestamp(), 0, 0, 0, 0, '', '',
    '', false
FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS d(event_id, endpoint_id, ordering_key)
"""


_IDS = "SELECT nextval('delivery_event_id_seq') FROM generate_series(1, %s)"


def insert_events(events: Sequence[Event]) -> list[Event]:
    """Insert and set the ids; returns those whose (subscriber, uid) somebody else recorded in the meantime.

    In the order of their uids, whatever the caller's: of two transactions with the same uids one waits for the other,
    and never each for the other. The ids rise in the caller's order, which replays and ordering keys go by.
    """
    ids: list[int | None] = [None] * len(events)
    if len(events) > 1:
        ids = [*sorted(row[0] for row in execute(_IDS, [len(events)]))]
    placed = sorted(zip(events, ids, strict=True), key=_by_uid)
    lost: list[Event] = []
    for start in range(0, len(placed), CHUNK):
        lost += _insert(placed[start : start + CHUNK])
    return lost


def _by_uid(placed: tuple[Event, int | None]) -> tuple[str, str]:
    return placed[0].subscriber, placed[0].uid


def _insert(placed: Sequence[tuple[Event, int | None]]) -> list[Event]:
    events = [event for event, _ in placed]
    columns = (
        literal(["NULL" if pk is None else pk for _, pk in placed]),
        [event.uid for event in events],
        [event.type for event in events],
        [event.subscriber for event in events],
        [event.payload for event in events],
        [event.payload_sha256 for event in events],
        [event.correlation_id for event in events],
        [event.caller for event in events],
        literal([event.delivery_count for event in events]),
        [event.occurred_at for event in events],
        [event.created_at for event in events],
    )
    inserted = {(who, uid): pk for pk, who, uid in execute(_EVENTS, columns)}
    for event in events:
        event.pk = inserted.get((event.subscriber, event.uid))
        event._state.adding = event.pk is None
        event._state.db = "default"
    return [event for event in events if event.pk is None]


def insert_deliveries(rows: Sequence[tuple[int, int, str]]) -> None:
    """Rows of (event id, endpoint id, value of the ordering key)."""
    keys = [row[2] for row in rows]
    execute(
        _DELIVERIES,
        (
            literal([row[0] for row in rows]),
            literal([row[1] for row in rows]),
            keys if any(keys) else literal(['""'] * len(rows)),
        ),
    )


def value_text(event_id: int, path: Sequence[str]) -> str | None:
    """The JSON at this path of an event's payload as it stands there; None where there is none.

    `->` with a text finds keys of objects only, as a path of ours does.
    """
    steps = "".join(" -> %s::text" for _ in path)
    found = execute(
        f"SELECT (convert_from(payload, 'UTF8')::json{steps})::text FROM delivery_event WHERE id = %s",  # noqa: S608
        [*path, event_id],
    ).fetchone()
    return found[0] if found else None


def hold_events(ids: Sequence[int]) -> set[int]:
    """Keep these events until the transaction ends, and say which still stand. The foreign key looks at its end only:
    retention could take an event that a replay under way has read already."""
    rows = execute(
        "SELECT id FROM delivery_event WHERE id = ANY(%s::bigint[]) ORDER BY id FOR KEY SHARE", [literal(ids)]
    )
    return {row[0] for row in rows}
