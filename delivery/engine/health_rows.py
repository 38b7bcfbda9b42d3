"""The endpoints' health rows, locked and saved for the claim and the settle. SQL by hand.

Moves no delivery. The order of locks is the one in `engine.claims`: endpoints, then health rows in endpoint order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection

from delivery.engine.sql import cursor, execute, literal
from delivery.policy.pace import FIELDS

_PACE_FIELDS = ", ".join(FIELDS)
_HEALTH_FIELDS = (
    "breaker_state, consecutive_failures, cooldown_seconds, opened_at, probe_at, probe_token, probe_until, "
    f"refusal_kind, refusal_count, {_PACE_FIELDS}, throttled_until, last_success_at, last_failure_at, wait_reason, "
    "tokens, tokens_at, p95_ms, own_fault_kind, own_fault_count, own_fault_since"
)
_LOCK_HEALTH = f"""
SELECT endpoint_id, clock_timestamp(), {_HEALTH_FIELDS} FROM delivery_endpointhealth
WHERE endpoint_id = ANY(%(all)s::bigint[]) AND (
    endpoint_id = ANY(%(wanted)s::bigint[]) OR breaker_state <> 'closed' OR consecutive_failures > 0
    OR refusal_count > 0 OR own_fault_count > 0 OR pace_probe_until IS NOT NULL OR throttle_streak > 0
    OR last_success_at IS NULL
    OR last_success_at < statement_timestamp() - interval '5 seconds')
ORDER BY endpoint_id FOR NO KEY UPDATE
"""  # noqa: S608 - constants only
_SAVE_HEALTH = """
UPDATE delivery_endpointhealth SET breaker_state = %s, consecutive_failures = %s, cooldown_seconds = %s,
    opened_at = %s, probe_at = %s, probe_token = %s, probe_until = %s, refusal_kind = %s, refusal_count = %s,
    pace_per_second = %s, pace_ceiling = %s, pace_clock = %s, pace_sent = %s, pace_lowered_at = %s,
    pace_probe_until = %s, throttle_streak = %s, throttle_status = %s,
    throttled_until = %s, last_success_at = %s, last_failure_at = %s, wait_reason = %s, tokens = %s, tokens_at = %s,
    own_fault_kind = %s, own_fault_count = %s, own_fault_since = %s
WHERE endpoint_id = %s
"""


def lock_endpoints(ids: Iterable[int]) -> dict[int, tuple[bool, int]]:
    """Lock them in order; returns of each whether it needs attention already, and its version."""
    rows = execute(
        "SELECT id, attention_at IS NOT NULL, version FROM delivery_endpoint WHERE id = ANY(%s::bigint[]) "
        "ORDER BY id FOR NO KEY UPDATE",
        [literal(ids)],
    )
    return {row[0]: (row[1], row[2]) for row in rows}


def lock_health(everyone: Iterable[int], wanted: Iterable[int]) -> list[tuple[Any, ...]]:
    """Lock the health rows of `wanted`, and those of `everyone` that a success would change; in endpoint order."""
    parameters = {"all": literal(everyone), "wanted": literal(wanted)}
    return execute(_LOCK_HEALTH, parameters).fetchall()


def save_health(rows: Sequence[tuple[Any, ...]]) -> None:
    with connection.wrap_database_errors:
        cursor().executemany(_SAVE_HEALTH, rows)


_SAVE_TURNS = """
UPDATE delivery_endpointhealth
SET tokens = %s, tokens_at = %s, breaker_state = %s, probe_token = %s, probe_until = %s,
    pace_per_second = %s, pace_ceiling = %s, pace_clock = %s, pace_sent = %s, pace_probe_until = %s
WHERE endpoint_id = %s
"""


def save_admissions(rows: Sequence[tuple[Any, ...]]) -> None:
    """What a claim changed of the health rows it holds: tokens taken, a probe on its way."""
    with connection.wrap_database_errors:
        cursor().executemany(_SAVE_TURNS, rows)


_UNUSABLE = """
UPDATE delivery_endpointhealth SET own_fault_kind = %s, own_fault_count = own_fault_count + 1,
    own_fault_since = COALESCE(own_fault_since, clock_timestamp()), test_id = NULL, wait_reason = 'unusable',
    throttled_until = GREATEST(throttled_until, clock_timestamp() + %s::float8 * interval '1 second')
WHERE endpoint_id = %s
"""


def note_unusable(endpoint_id: int, kind: str, seconds: float) -> None:
    """Nothing of this endpoint is claimed for so long, by a fault of ours (a `policy.own_faults.Kind`)."""
    execute(_UNUSABLE, [kind, seconds, endpoint_id])
