"""What falls due next, and when: looks ahead for the claim, locks and moves nothing. SQL by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from delivery.engine.claims import PER_SECOND, SCAN_MOST
from delivery.engine.sql import execute

_EARLIEST = """
WITH RECURSIVE scan(endpoint_id, due_at, step) AS (
    (SELECT d.endpoint_id, d.next_attempt_at, 1 FROM delivery_delivery d
     WHERE d.state IN ('pending', 'failed') ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT n.endpoint_id, n.next_attempt_at, s.step + 1 FROM scan s CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.next_attempt_at FROM delivery_delivery d
        WHERE d.state IN ('pending', 'failed') AND d.endpoint_id > s.endpoint_id
        ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1
    ) n WHERE s.step < %(steps)s
)
SELECT CASE WHEN count(*) < %(steps)s
            THEN LEAST(min(s.due_at) FILTER (WHERE NOT e.is_held), clock_timestamp() - %(slack)s * interval '1 second')
            END
FROM scan s JOIN delivery_endpoint e ON e.id = s.endpoint_id
"""
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


def earliest_due(slack_seconds: float) -> datetime:
    """Nothing that may be sent is due before this moment, unless its transaction took longer than the slack to commit.

    While somebody holds an old snapshot, no vacuum and no scan may forget the rows that were claimed since, and each
    claim would walk past all of them again. An index condition on the due time passes them by without a look.
    """
    row = execute(_EARLIEST, {"steps": SCAN_MOST * 8, "slack": slack_seconds}).fetchone()
    return row[0] if row and row[0] is not None else LONG_AGO


_NEXT_DUE = f"""
WITH RECURSIVE scan(endpoint_id, due_at, step) AS (
    (SELECT d.endpoint_id, d.next_attempt_at, 1 FROM delivery_delivery d
     WHERE d.state IN ('pending', 'failed') ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT n.endpoint_id, n.next_attempt_at, s.step + 1 FROM scan s CROSS JOIN LATERAL (
        SELECT d.endpoint_id, d.next_attempt_at FROM delivery_delivery d
        WHERE d.state IN ('pending', 'failed') AND d.endpoint_id > s.endpoint_id
        ORDER BY d.endpoint_id, d.next_attempt_at LIMIT 1
    ) n WHERE s.step < %(steps)s
)
SELECT extract(epoch FROM min(GREATEST(s.due_at, h.throttled_until, h.pace_probe_until,
    CASE h.breaker_state WHEN 'open' THEN h.probe_at WHEN 'half_open' THEN h.probe_until END,
    CASE WHEN h.tokens < 1 THEN h.tokens_at + (1 - h.tokens) / {PER_SECOND} * interval '1 second' END
)) - clock_timestamp())::float8
FROM scan s JOIN delivery_endpoint e ON e.id = s.endpoint_id JOIN delivery_endpointhealth h ON h.endpoint_id = e.id
WHERE NOT e.is_held AND s.due_at < statement_timestamp() + %(horizon)s * interval '1 second'
"""  # noqa: S608 - constants only


def next_due_in(horizon_seconds: float) -> float | None:
    """Seconds until something unheld falls due (0 or less: it is), or None where nothing does within the horizon."""
    row = execute(_NEXT_DUE, {"horizon": horizon_seconds, "steps": SCAN_MOST}).fetchone()
    seconds = row[0] if row else None
    return seconds if seconds is not None and seconds < horizon_seconds else None
