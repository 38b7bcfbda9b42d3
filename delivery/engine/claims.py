"""All SQL that moves deliveries: claim, settle, release. Nothing else writes their state but `lifecycle` and `sweeps`.

The rules that every statement here keeps:
- Lock order: endpoints, then health rows in endpoint order, then deliveries in id order. The claim never waits for a
  lock (SKIP LOCKED), so it cannot be part of a deadlock.
- The claim locks an endpoint's health row first and counts and claims in a *second* statement: a count in the same
  statement would see the snapshot from before the lock, and the cap would leak.
- Candidates are found by a skip-scan over (endpoint, next attempt) from a rotating cursor. No query here may want an
  index on the due time alone: beside one, the planner flips to it and a flooded endpoint starves the others.
- Times are the database's. Leases use `clock_timestamp()`; comparisons use `statement_timestamp()`, which is stable, so
  that it can be an index condition.
- A settle is fenced by lease token *and* state. Whoever lost the lease changes nothing.
- Strict order by key: only the first unfinished delivery of an (endpoint, ordering key) may be claimed; a dead letter
  counts as unfinished, so it holds its key until it is redriven or discarded. A row found behind another is parked at
  `AWAITS_TURN`, and whoever finishes its predecessor, under the endpoint's health lock, makes it due.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from delivery.engine.sql import cursor, execute, literal
from delivery.policy.pace import FIELDS
from delivery.states import AWAITS_TURN

SCAN_LEAST, SCAN_MOST = 64, 512

# --- claim --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LockedEndpoint:
    """An endpoint whose health row this transaction holds, and that has something due."""

    endpoint_id: int
    version: int
    breaker_state: str
    consecutive_failures: int
    cooldown_seconds: int
    opened_at: datetime | None
    probe_at: datetime | None
    probe_token: UUID | None
    probe_until: datetime | None
    tokens: float | None
    tokens_at: datetime | None
    pace_per_second: float | None
    pace_ceiling: float | None
    pace_clock: float
    pace_sent: int
    pace_lowered_at: datetime | None
    pace_probe_until: datetime | None
    throttle_streak: int
    throttle_status: int
    test_id: int | None
    is_open: bool  # False: only the test may go
    now: datetime


_PACE_FIELDS = ", ".join(FIELDS)
# Tokens a second: the endpoint's own limit or the learned pace, whichever is slower. LEAST passes NULL by.
PER_SECOND = "LEAST(e.rate_per_minute / 60.0::float8, h.pace_per_second)"
_OPEN = f"""NOT e.is_held
          AND (h.throttled_until IS NULL OR h.throttled_until <= statement_timestamp())
          AND (h.pace_probe_until IS NULL OR h.pace_probe_until <= statement_timestamp())
          AND (h.breaker_state = 'closed'
               OR (h.breaker_state = 'open' AND (h.probe_at IS NULL OR h.probe_at <= statement_timestamp()))
               OR (h.breaker_state = 'half_open'
                   AND (h.probe_until IS NULL OR h.probe_until <= statement_timestamp())))
          AND ({PER_SECOND} IS NULL OR h.tokens IS NULL OR h.tokens_at IS NULL
               OR h.tokens + extract(epoch FROM statement_timestamp() - h.tokens_at) * {PER_SECOND} >= 1)"""
# One probe of the due index for each endpoint with something waiting. `m` is asked for only where fewer than wanted
# were found: otherwise the scan is not walked further than needed.
_FIND = f"""
WITH RECURSIVE scan(endpoint_id, due_at, step) AS (
    (SELECT d.endpoint_id, d.next_attempt_at, 1 FROM delivery_delivery d
     WHERE d.state IN ('pending', 'failed') AND d.endpoint_id > %(after)s AND d.endpoint_id <= %(until)s
       AND d.next_attempt_at >= %(floor)s
     ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT n.endpoint_id, n.next_attempt_at, s.step + 1 FROM scan s CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.next_attempt_at FROM delivery_delivery d
        WHERE d.state IN ('pending', 'failed') AND d.endpoint_id > s.endpoint_id AND d.endpoint_id <= %(until)s
          AND d.next_attempt_at >= %(floor)s
        ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1
    ) n WHERE s.step < %(steps)s
), held AS MATERIALIZED (
    SELECT l.* FROM scan s CROSS JOIN LATERAL (
        SELECT h.endpoint_id, e.version, h.breaker_state, h.consecutive_failures, h.cooldown_seconds, h.opened_at,
               h.probe_at, h.probe_token, h.probe_until, h.tokens, h.tokens_at, {_PACE_FIELDS}, h.test_id,
               o.is_open
        FROM delivery_endpointhealth h JOIN delivery_endpoint e ON e.id = h.endpoint_id
             CROSS JOIN LATERAL (SELECT {_OPEN} AS is_open) o
        WHERE h.endpoint_id = s.endpoint_id AND e.id = s.endpoint_id
          AND (o.is_open OR (h.test_id IS NOT NULL AND e.deleted_at IS NULL))
        FOR NO KEY UPDATE OF h SKIP LOCKED
    ) l
    WHERE s.due_at <= statement_timestamp()
    LIMIT %(most)s
)
SELECT m.last_id, clock_timestamp(), held.*
FROM (SELECT CASE WHEN (SELECT count(*) FROM held) < %(most)s
                  THEN (SELECT max(endpoint_id) FROM scan HAVING count(*) >= %(steps)s) END AS last_id) m
LEFT JOIN held ON true
"""  # noqa: S608 - constants only


@dataclass(slots=True)
class Found:
    """Endpoints to claim from, and after which endpoint to look further; None where the range is used up."""

    locked: list[LockedEndpoint]
    go_on_after: int | None


def find(after: int, until: int, most: int, floor: datetime) -> Found:
    """Lock the health rows of endpoints in (after, until] with something due that may be sent; up to `most`.

    Looks at up to 512 endpoints, and at nothing due before `floor` (see `ahead.earliest_due`). Needs a transaction.
    """
    steps = max(SCAN_LEAST, min(SCAN_MOST, most * 4))
    parameters = {"after": after, "until": until, "steps": steps, "most": most, "floor": floor}
    rows = execute(_FIND, parameters).fetchall()
    locked = [LockedEndpoint(*row[2:], row[1]) for row in rows if row[2] is not None]  # type: ignore[call-arg]
    return Found(locked, locked[-1].endpoint_id if len(locked) >= most else rows[0][0])


# `= ANY(ARRAY(…))` and `OFFSET 0` leave the planner one way: by primary key. Left to itself it hashes whole tables.
_TAKE = """
, taken AS (
    UPDATE delivery_delivery d
    SET state = 'in_flight', lease_token = %(token)s,
        leased_until = clock_timestamp() + %(lease)s * interval '1 second',
        next_attempt_at = clock_timestamp() + %(lease)s * interval '1 second'
    WHERE d.id = ANY(ARRAY(SELECT c.id FROM chosen c))
    RETURNING d.id, d.endpoint_id, d.attempt_count, d.throttle_count, d.rescue_count, d.ordering_key,
              d.try_count, d.redrive_count, d.throttled_at
), sent AS (
    SELECT t.id, t.endpoint_id, t.attempt_count, t.throttle_count, t.rescue_count, t.ordering_key,
           (extract(epoch FROM clock_timestamp() - c.due) * 1000)::float8 AS waited_ms,
           c.uid, c.payload, c.correlation_id, t.try_count, t.redrive_count,
           extract(epoch FROM t.throttled_at)::float8 AS throttled_since
    FROM taken t JOIN chosen c ON c.id = t.id
)"""
_TURNS = """
WITH turn AS MATERIALIZED (
    SELECT t.* FROM unnest(%(ids)s::bigint[], %(rooms)s::int[], %(caps)s::int[]) AS t(endpoint_id, room, cap)
    CROSS JOIN LATERAL (SELECT 1 FROM delivery_endpoint e WHERE e.id = t.endpoint_id AND NOT e.is_held OFFSET 0) live
)"""
# Looked at once more whether it is live: it may have been deleted since it was found, in another statement's snapshot.
# A lease that has ended counts no more: its request, with a third of the lease's time, is over. It also keeps the count
# from walking past all that was in flight since the last vacuum, however long somebody holds a snapshot.
_ROOM = """GREATEST(0, LEAST(t.room, t.cap - (SELECT count(*) FROM delivery_delivery f
                WHERE f.endpoint_id = t.endpoint_id AND f.state = 'in_flight'
                  AND f.leased_until > statement_timestamp())))"""
# Rows of `fitting` and as many large ones, first come first, as their bytes may be in memory; one, however large, if
# there is none yet. The size stands in the row's header, and a payload beside its row is read when it is sent to us: so
# those that are left out are never read. The large ones are weighed only if there is one: the array is asked for late.
_CHOSEN = """, chosen AS MATERIALIZED (
    SELECT f.id, f.due, e.uid, e.payload, e.correlation_id FROM fitting f CROSS JOIN LATERAL (
        SELECT v.uid, v.payload, v.correlation_id FROM delivery_event v WHERE v.id = f.event_id OFFSET 0
    ) e
    WHERE octet_length(e.payload) <= %(small)s OR f.id = ANY(ARRAY(
        SELECT w.id FROM (
            SELECT g.id, b.large, sum(b.large) OVER (ORDER BY g.due, g.id) AS so_far
            FROM fitting g CROSS JOIN LATERAL (
                SELECT octet_length(v.payload) AS large FROM delivery_event v WHERE v.id = g.event_id OFFSET 0
            ) b WHERE b.large > %(small)s
        ) w WHERE w.so_far <= %(bytes)s OR (w.so_far = w.large AND %(alone)s)
    ))
)"""
_CLAIM = f"""{_TURNS}, fitting AS MATERIALIZED (
    SELECT d.id, d.event_id, d.due FROM turn t CROSS JOIN LATERAL (
        SELECT d.id, d.event_id, d.next_attempt_at AS due FROM delivery_delivery d
        WHERE d.endpoint_id = t.endpoint_id AND d.state IN ('pending', 'failed')
          AND d.next_attempt_at <= statement_timestamp() AND d.next_attempt_at >= %(floor)s
        ORDER BY d.next_attempt_at
        LIMIT {_ROOM}
        FOR NO KEY UPDATE SKIP LOCKED
    ) d
){_CHOSEN}{_TAKE}
SELECT * FROM sent"""  # noqa: S608 - constants only
_CLAIM_IN_ORDER = f"""{_TURNS}, room AS MATERIALIZED (
    SELECT t.endpoint_id, {_ROOM} AS room FROM turn t
), seen AS MATERIALIZED (
    SELECT d.*, t.room FROM room t CROSS JOIN LATERAL (
        SELECT d.id, d.event_id, d.endpoint_id, d.ordering_key, d.next_attempt_at AS due FROM delivery_delivery d
        WHERE d.endpoint_id = t.endpoint_id AND d.state IN ('pending', 'failed')
          AND d.next_attempt_at <= statement_timestamp() AND d.next_attempt_at >= %(floor)s
        ORDER BY d.next_attempt_at, d.id
        LIMIT CASE WHEN t.room > 0 THEN t.room * 2 + 50 ELSE 0 END
        FOR NO KEY UPDATE SKIP LOCKED
    ) d
), judged AS MATERIALIZED (
    SELECT s.*, s.ordering_key = '' OR NOT EXISTS (
        SELECT 1 FROM delivery_delivery p
        WHERE p.endpoint_id = s.endpoint_id AND p.ordering_key = s.ordering_key AND NOT p.ordering_key = ''
          AND p.state IN ('pending', 'failed', 'in_flight', 'dead_letter') AND p.id < s.id
    ) AS is_first FROM seen s
), parked AS (
    UPDATE delivery_delivery d SET next_attempt_at = %(awaits_turn)s
    FROM judged j WHERE d.id = j.id AND NOT j.is_first
    RETURNING 1
), fitting AS MATERIALIZED (
    SELECT r.id, r.event_id, r.due FROM (
        SELECT j.*, row_number() OVER (PARTITION BY j.endpoint_id ORDER BY j.due, j.id) AS place
        FROM judged j WHERE j.is_first
    ) r WHERE r.place <= r.room
){_CHOSEN}{_TAKE}
SELECT s.*, p.parked FROM (SELECT count(*) AS parked FROM parked) p LEFT JOIN sent s ON true"""  # noqa: S608 - constants only


@dataclass(slots=True)
class Quota:
    """What may be claimed of one endpoint: `room` by us now, `cap` by all workers together."""

    endpoint_id: int
    room: int
    cap: int


# id, endpoint_id, attempt_count, throttle_count, rescue_count, ordering_key, waited_ms, uid, payload, correlation_id,
# try_count, redrive_count, throttled_since
ClaimedRow = tuple[int, int, int, int, int, str, float, str, bytes, str, int, int, float | None]


@dataclass(slots=True)
class Memory:
    """What a claim may bring into memory: payloads larger than `small` share `free` bytes.

    `is_empty` says that none of them is here yet: then one may come, however large. The small ones are bounded by the
    slots, so that a large one never stands in their way.
    """

    small: int
    free: int
    is_empty: bool = True


def claim(
    rooms: Sequence[Quota], token: UUID, lease_seconds: float, floor: datetime, memory: Memory
) -> list[ClaimedRow]:
    """Lease due rows of the endpoints whose health rows this transaction holds. Never more than their rooms."""
    return execute(_CLAIM, _parameters(rooms, token, lease_seconds, floor, memory)).fetchall()


_CLAIM_TEST = f"""WITH chosen AS MATERIALIZED (
    SELECT d.id, d.next_attempt_at AS due, v.uid, v.payload, v.correlation_id
    FROM delivery_delivery d JOIN delivery_event v ON v.id = d.event_id
    WHERE d.id = %(id)s AND d.state IN ('pending', 'failed')
      AND EXISTS (SELECT 1 FROM delivery_endpoint e WHERE e.id = d.endpoint_id AND e.deleted_at IS NULL)
    FOR NO KEY UPDATE OF d SKIP LOCKED
){_TAKE}
SELECT * FROM sent"""  # noqa: S608 - constants only


def claim_test(endpoint_id: int, test_id: int, token: UUID, lease_seconds: float) -> list[ClaimedRow]:
    """Lease a test that goes out beside the queue, and forget that it was asked for."""
    forget_test(endpoint_id)
    return execute(_CLAIM_TEST, {"id": test_id, "token": token, "lease": lease_seconds}).fetchall()


def forget_test(endpoint_id: int) -> None:
    """The test of this endpoint, whose health row is locked, waits with all others from now on."""
    execute("UPDATE delivery_endpointhealth SET test_id = NULL WHERE endpoint_id = %s", [endpoint_id])


def claim_in_order(
    rooms: Sequence[Quota], token: UUID, lease_seconds: float, floor: datetime, memory: Memory
) -> tuple[list[ClaimedRow], int]:
    """The same for endpoints with an ordering key; also how many rows were parked to wait for their turn."""
    parameters = {**_parameters(rooms, token, lease_seconds, floor, memory), "awaits_turn": AWAITS_TURN}
    rows = execute(_CLAIM_IN_ORDER, parameters).fetchall()
    return [row[:-1] for row in rows if row[0] is not None], rows[0][-1]  # type: ignore[misc]


def _parameters(
    rooms: Sequence[Quota], token: UUID, lease_seconds: float, floor: datetime, memory: Memory
) -> dict[str, Any]:
    return {
        "small": memory.small,
        "bytes": max(0, memory.free),
        "alone": memory.is_empty,
        "ids": literal(room.endpoint_id for room in rooms),
        "rooms": literal(room.room for room in rooms),
        "caps": literal(room.cap for room in rooms),
        "lease": lease_seconds,
        "floor": floor,
        "token": token,
    }


# --- settle -------------------------------------------------------------------------------------------------------

# `expected` is a column so that the planner does not see a constant state: it would walk the index of what is in flight
# once for every row. The locks are taken in the order of `given`, whose ids come sorted.
_SETTLE = """
WITH given AS MATERIALIZED (
    SELECT g.*, 'in_flight'::text AS expected FROM unnest(
        %(ids)s::bigint[], %(tokens)s::uuid[], %(states)s::text[], %(costs)s::smallint[], %(throttles)s::smallint[],
        %(rescues)s::smallint[], %(delays)s::float8[], %(outcomes)s::text[], %(statuses)s::smallint[], %(ms)s::int[],
        %(errors)s::text[], %(fingerprints)s::text[]
    ) AS g(id, token, state, cost, throttle_count, rescue_count, delay, outcome, status, ms, error, fingerprint)
), mine AS MATERIALIZED (
    SELECT l.id FROM given g CROSS JOIN LATERAL (
        SELECT d.id FROM delivery_delivery d
        WHERE d.id = g.id AND d.state = g.expected AND d.lease_token = g.token FOR NO KEY UPDATE
    ) l
)
UPDATE delivery_delivery d
SET state = g.state, attempt_count = LEAST(d.attempt_count::int + g.cost, 32767), throttle_count = g.throttle_count,
    throttled_at = CASE WHEN g.throttle_count > 0 THEN COALESCE(d.throttled_at, statement_timestamp()) END,
    rescue_count = g.rescue_count, try_count = LEAST(d.try_count::int + 1, 32767), lease_token = NULL,
    leased_until = NULL,
    next_attempt_at = clock_timestamp() + g.delay * interval '1 second',
    last_outcome = g.outcome, last_status_code = g.status, last_response_ms = g.ms, last_error = g.error,
    fingerprint = g.fingerprint,
    delivered_at = CASE WHEN g.state = 'delivered' THEN statement_timestamp() END,
    finished_at = CASE WHEN g.state IN ('delivered', 'dead_letter') THEN statement_timestamp() END
FROM given g
WHERE d.id = ANY(ARRAY(SELECT m.id FROM mine m)) AND d.id = g.id
RETURNING d.id
"""


def settle(columns: dict[str, Any]) -> set[int]:
    """Write outcomes to the rows still leased under these tokens; returns the ids that were."""
    return {row[0] for row in execute(_SETTLE, columns)}


ATTEMPT_COLUMNS = (
    "delivery_id, endpoint_id, number, outcome, status_code, error, started_at, queue_wait_ms, dns_ms, connect_ms, "
    "tls_ms, first_byte_ms, total_ms, address, signed_at, key_ids, is_probe, worker, response_head, retry_at, "
    "request_sent, response_truncated, note, cycle"
)


def copy_attempts(lines: str) -> None:
    """Append attempts, in COPY's text form and the order of ATTEMPT_COLUMNS."""
    with (
        connection.wrap_database_errors,
        cursor().copy(f"COPY delivery_attempt ({ATTEMPT_COLUMNS}) FROM STDIN") as copy,
    ):
        copy.write(lines.encode())


# --- order, release -----------------------------------------------------------------------------------------------

_PROMOTE = """
WITH keys AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(keys)s::text[]) AS k(endpoint_id, ordering_key)
), first AS MATERIALIZED (
    SELECT f.id FROM (SELECT DISTINCT * FROM keys) k CROSS JOIN LATERAL (
        SELECT d.id, d.state FROM delivery_delivery d
        WHERE d.endpoint_id = k.endpoint_id AND d.ordering_key = k.ordering_key AND NOT d.ordering_key = ''
          AND d.state IN ('pending', 'failed', 'in_flight', 'dead_letter')
        ORDER BY d.id LIMIT 1
    ) f WHERE f.state IN ('pending', 'failed')
)
UPDATE delivery_delivery d SET next_attempt_at = clock_timestamp()
FROM first f WHERE d.id = f.id AND d.state IN ('pending', 'failed') AND d.next_attempt_at >= %(awaits_turn)s
"""


def promote(keys: Iterable[tuple[int, str]]) -> int:
    """Make the next delivery of each (endpoint, ordering key) due. The health rows of the endpoints must be locked."""
    pairs = list(keys)
    parameters = {"ids": [pair[0] for pair in pairs], "keys": [pair[1] for pair in pairs], "awaits_turn": AWAITS_TURN}
    return execute(_PROMOTE, parameters).rowcount


_RELEASE = """
UPDATE delivery_delivery SET state = CASE WHEN attempt_count > 0 OR throttle_count > 0 OR rescue_count > 0
    THEN 'failed' ELSE 'pending' END, lease_token = NULL, leased_until = NULL, next_attempt_at = clock_timestamp()
WHERE state = 'in_flight' AND lease_token = ANY(%s::uuid[])
"""


def release(tokens: Iterable[UUID]) -> int:
    """Give back every row still leased under these tokens, as if it had not been claimed."""
    return execute(_RELEASE, [literal(tokens)]).rowcount
