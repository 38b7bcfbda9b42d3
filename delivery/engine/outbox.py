"""The set-based inserts behind `delivery.events`: ten thousand events in a second, not in ten.

Runs in the caller's transaction and decides nothing: what is inserted was judged by `events`. New deliveries are due
by the database's clock, the one that the claim compares with.
"""

from __future__ import annotations

from collections.abc import Sequence

from delivery.engine.claims import execute, literal
from delivery.models import Event

_EVENTS = """
INSERT INTO delivery_event (uid, type, subscriber, payload, payload_sha256, correlation_id, caller, delivery_count,
                            occurred_at, created_at)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bytea[], %s::text[], %s::text[], %s::text[], %s::int[],
                     %s::timestamptz[], %s::timestamptz[])
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


def insert_events(events: Sequence[Event]) -> list[Event]:
    """Insert and set the ids; returns those whose (subscriber, uid) somebody else recorded in the meantime."""
    columns = (
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


def hold_events(ids: Sequence[int]) -> set[int]:
    """Keep these events until the transaction ends, and say which still stand. The foreign key looks at its end only:
    retention could take an event that a replay under way has read already."""
    rows = execute(
        "SELECT id FROM delivery_event WHERE id = ANY(%s::bigint[]) ORDER BY id FOR KEY SHARE", [literal(ids)]
    )
    return {row[0] for row in rows}
