"""An endpoint's learned pace in its health row: the policy of `policy.pace` asked under its lock. SQL by hand.

Moves no delivery; called by the claim and the settle, whose transaction holds the health row.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from delivery.engine.sql import execute
from delivery.policy import pace as paces
from delivery.policy.pace import Pace
from delivery.policy.retry import Schedule, throttle_wait
from kernel.token_bucket import Bucket

_rng = random.Random()  # noqa: S311 - jitter, not secrets


@dataclass(frozen=True, slots=True)
class Throttled:
    """An answer that asks us to slow down; `told` are the seconds it names."""

    endpoint_id: int
    schedule: Schedule
    told: float | None
    status: int
    began_at: datetime


def after_throttled(
    pace: Pace, until: datetime | None, answer: Throttled, now: datetime
) -> tuple[Pace, datetime | None, Bucket | None]:
    """(pace, nothing is sent before, bucket or None where it stays).

    An answer to what was under way when the pace was lowered can lengthen the wait, and does nothing else; when no
    wait is on any more, since somebody lifted it or it is over, it does nothing at all.
    """
    if not paces.is_news(pace, answer.began_at):
        if answer.told is None or until is None or until <= now:
            return pace, until, None
        later = now + timedelta(seconds=answer.told)
        return pace, max(later, until), None
    wait = throttle_wait(answer.schedule, answer.told, pace.streak + 1, _rng)
    passed, over_seconds = passed_lately(
        answer.endpoint_id, paces.LOOKS_BACK_SECONDS, pace.lowered_at, paces.LOOKS_AT_MOST
    )
    slower = paces.lowered(
        pace,
        wait=wait,
        told=answer.told is not None,
        passed=passed,
        over_seconds=over_seconds,
        status=answer.status,
        now=now,
    )
    return slower, max(now + timedelta(seconds=wait), until or now), paces.bucket_after_wait(wait, now)


def passed_lately(endpoint_id: int, seconds: float, since: datetime | None, most: int) -> tuple[int, float]:
    """How many deliveries it took within the last `seconds` (since `since`), and how many seconds ago the first began.

    Looks at `most` attempts; asked only when an endpoint is throttled.
    """
    row = execute(
        "SELECT count(*), extract(epoch FROM clock_timestamp() - min(a.started_at))::float8 FROM ("
        "SELECT started_at FROM delivery_attempt WHERE endpoint_id = %s AND status_code BETWEEN 200 AND 299 "
        "AND started_at >= GREATEST(clock_timestamp() - %s::float8 * interval '1 second', %s::timestamptz) "
        "ORDER BY started_at DESC LIMIT %s) a",
        [endpoint_id, seconds, since, most],
    ).fetchone()
    return (row[0], row[1] or 0.0) if row else (0, 0.0)
