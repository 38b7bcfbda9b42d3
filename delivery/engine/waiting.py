"""SQL that moves the due time of waiting deliveries, never their state: order given up, strays found, waits cut short.

The rules in `engine.claims` hold here too: deliveries are locked in id order, and the health rows of their endpoints
before them wherever order is at stake. A parked row (due at `AWAITS_TURN`) waits for the one in front of it; whoever
takes that away makes it due, and what everybody forgot is found by the beat (`maintenance.sweeps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from delivery.engine.sql import execute
from delivery.policy.retry import Schedule
from delivery.states import AWAITS_TURN
from kernel import clock

LONGEST_WAIT = timedelta(days=9)  # a custom delay of 7 days, its jitter, and the attempt itself
DELAYS_LISTED = 24

_FORGET_ORDER = """
WITH mine AS MATERIALIZED (
    SELECT d.id FROM delivery_delivery d
    WHERE d.endpoint_id = %(endpoint)s AND NOT d.ordering_key = ''
      AND d.state IN ('pending', 'failed', 'in_flight', 'dead_letter')
    ORDER BY d.id FOR NO KEY UPDATE
)
UPDATE delivery_delivery d SET ordering_key = '', next_attempt_at = CASE
    WHEN d.state IN ('pending', 'failed') AND d.next_attempt_at >= %(awaits_turn)s THEN clock_timestamp()
    ELSE d.next_attempt_at END
WHERE d.id = ANY(ARRAY(SELECT m.id FROM mine m))
"""


def forget_order(endpoint_id: int) -> int:
    """What is unfinished at this endpoint waits for no other any more. Its health row must be locked."""
    return execute(_FORGET_ORDER, {"endpoint": endpoint_id, "awaits_turn": AWAITS_TURN}).rowcount


# --- strays -------------------------------------------------------------------------------------------------------

_RELEASE_UNORDERED = """
WITH stray AS MATERIALIZED (
    SELECT s.id FROM delivery_endpoint e CROSS JOIN LATERAL (
        SELECT d.id FROM delivery_delivery d
        WHERE d.endpoint_id = e.id AND d.state IN ('pending', 'failed') AND d.next_attempt_at >= %(awaits_turn)s
          AND (e.ordering_key = '' OR d.ordering_key = '')
        LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
    ) s
    WHERE e.ordering_key = '' OR %(thoroughly)s
    LIMIT %(most)s
)
UPDATE delivery_delivery d SET next_attempt_at = clock_timestamp() WHERE d.id = ANY(ARRAY(SELECT s.id FROM stray s))
"""


def release_unordered(most: int, *, thoroughly: bool) -> int:
    """Make due what is parked though nothing orders it: its endpoint has no key (any more).

    `thoroughly` also looks for rows without a value of their own among all that wait for their turn rightly.
    """
    parameters = {"awaits_turn": AWAITS_TURN, "most": most, "thoroughly": thoroughly}
    return execute(_RELEASE_UNORDERED, parameters).rowcount


# The first unfinished row of each (endpoint, key), one probe of the index for each.
_FIRST_OF_EACH = """
WITH RECURSIVE scan(endpoint_id, ordering_key, state, due_at, step) AS (
    (SELECT d.endpoint_id, d.ordering_key, d.state, d.next_attempt_at, 1 FROM delivery_delivery d
     WHERE (d.endpoint_id, d.ordering_key) > (%(endpoint)s::bigint, %(key)s::text) AND NOT d.ordering_key = ''
       AND d.state IN ('pending', 'failed', 'in_flight', 'dead_letter')
     ORDER BY d.endpoint_id, d.ordering_key, d.id LIMIT 1)
    UNION ALL
    SELECT n.endpoint_id, n.ordering_key, n.state, n.next_attempt_at, s.step + 1 FROM scan s CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.ordering_key, d.state, d.next_attempt_at FROM delivery_delivery d
        WHERE (d.endpoint_id, d.ordering_key) > (s.endpoint_id, s.ordering_key) AND NOT d.ordering_key = ''
          AND d.state IN ('pending', 'failed', 'in_flight', 'dead_letter')
        ORDER BY d.endpoint_id, d.ordering_key, d.id LIMIT 1
    ) n WHERE s.step < %(most)s
)
SELECT endpoint_id, ordering_key, state IN ('pending', 'failed') AND due_at >= %(awaits_turn)s FROM scan ORDER BY step
"""


def parked_in_front(after: tuple[int, str], most: int) -> tuple[list[tuple[int, str]], tuple[int, str] | None]:
    """Keys whose first unfinished delivery is parked, among the next `most`; and where to go on, None at the end."""
    parameters = {"endpoint": after[0], "key": after[1], "most": most, "awaits_turn": AWAITS_TURN}
    rows = execute(_FIRST_OF_EACH, parameters).fetchall()
    strays = [(endpoint_id, key) for endpoint_id, key, is_parked in rows if is_parked]
    return strays, (rows[-1][0], rows[-1][1]) if len(rows) >= most else None


# --- waits cut short ----------------------------------------------------------------------------------------------

_END_WAITS = """
WITH waiting AS MATERIALIZED (
    SELECT d.id FROM delivery_delivery d
    WHERE d.endpoint_id = %(endpoint)s AND d.state IN ('pending', 'failed') AND d.last_outcome = 'throttled'
      AND d.next_attempt_at > clock_timestamp() AND d.next_attempt_at < %(awaits_turn)s
    ORDER BY d.id FOR NO KEY UPDATE
)
UPDATE delivery_delivery d SET next_attempt_at = clock_timestamp() WHERE d.id = ANY(ARRAY(SELECT w.id FROM waiting w))
"""


def end_waits(endpoint_id: int) -> int:
    """What the receiver itself told to wait is due: the wait of its endpoint was lifted, and this one with it."""
    return execute(_END_WAITS, {"endpoint": endpoint_id, "awaits_turn": AWAITS_TURN}).rowcount


# From the end of the last attempt on. What the receiver itself asked to wait for keeps its time.
_HASTEN = """
WITH delays AS MATERIALIZED (
    SELECT * FROM unnest(%(least)s::float8[], %(longest)s::float8[]) WITH ORDINALITY AS l(least, longest, n)
), waiting AS MATERIALIZED (
    SELECT d.id, d.attempt_count FROM delivery_delivery d
    WHERE d.endpoint_id = %(endpoint)s AND d.state IN ('pending', 'failed')
      AND d.next_attempt_at > clock_timestamp() AND d.next_attempt_at < %(awaits_turn)s
      AND d.attempt_count > 0 AND d.last_outcome <> 'throttled' AND d.id > %(after)s
    ORDER BY d.id LIMIT %(most)s FOR NO KEY UPDATE
), moved AS (
    UPDATE delivery_delivery d SET next_attempt_at = GREATEST(p.at, clock_timestamp())
    FROM (
        SELECT w.id, COALESCE((
            SELECT max(a.started_at + COALESCE(a.total_ms, 0) * interval '1 millisecond') FROM delivery_attempt a
            WHERE a.delivery_id = w.id AND a.started_at >= %(since)s
        ), clock_timestamp()) + (l.least + random() * (l.longest - l.least)) * interval '1 second' AS at
        FROM waiting w JOIN delays l ON l.n = LEAST(w.attempt_count, %(listed)s)
    ) p WHERE d.id = p.id AND p.at < d.next_attempt_at
    RETURNING 1
)
SELECT (SELECT max(id) FROM waiting), (SELECT count(*) FROM waiting), (SELECT count(*) FROM moved)
"""


def hasten(endpoint_id: int, schedule: Schedule, *, after: int = 0, most: int = 2_000) -> tuple[int, int | None]:
    """Move waiting retries forward to what this schedule gives, never back; up to `most` of them, by id.

    Returns how many were moved, and the id to go on after, None at the end.
    """
    bounds: Sequence[tuple[float, float]] = [schedule.bounds(n) for n in range(1, DELAYS_LISTED + 1)]
    parameters = {
        "least": [least for least, _ in bounds],
        "longest": [longest for _, longest in bounds],
        "listed": DELAYS_LISTED,
        "endpoint": endpoint_id,
        "awaits_turn": AWAITS_TURN,
        "after": after,
        "most": most,
        "since": clock.now() - LONGEST_WAIT,
    }
    row = execute(_HASTEN, parameters).fetchone()
    last, seen, moved = row if row is not None else (None, 0, 0)
    return moved, last if seen >= most else None
