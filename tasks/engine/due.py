"""Which due tasks of a kind start next: by urgency, and within each subscriber's share. SQL: the choice.

Urgency ages: a less urgent task counts as due `AGES_SECONDS` later than it is, so no flood of more urgent ones keeps it
waiting for longer than that. Each urgency is an index range in order of time; their beginnings are merged. Where each
subscriber has a share, the names that wait are read off an index, one probe each, and each name's own beginning is
read: what a full subscriber has waiting is not walked through. The kind's row is locked by whoever calls.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from tasks.engine import limits
from tasks.models import KindPolicy, Task
from tasks.states import AGES_SECONDS, State

TO_START = (State.QUEUED.value, State.RETRYING.value)
NAMES_AT_ONCE = 1_000  # subscribers looked at in one claim; the next goes on behind them

_DUE = "state IN ('queued', 'retrying') AND next_attempt_at <= %(now)s AND (expires_at IS NULL OR expires_at > %(now)s)"


def _merged(whose: str, most: str) -> str:
    parts = [
        f"(SELECT id, next_attempt_at + interval '{seconds} seconds' AS turn FROM tasks_task WHERE {whose}"  # noqa: S608
        f" AND priority = {priority} AND {_DUE} ORDER BY next_attempt_at LIMIT {most})"
        for priority, seconds in AGES_SECONDS.items()
    ]
    return f"SELECT id, turn FROM ({' UNION ALL '.join(parts)}) AS due ORDER BY turn, id LIMIT {most}"  # noqa: S608


_OF_ALL = _merged("kind = %(kind)s", "%(most)s")
_OF_SHARES = f"""
    SELECT chosen.id FROM unnest(%(names)s::text[], %(shares)s::int[]) AS share(name, most)
    CROSS JOIN LATERAL ({_merged("kind = %(kind)s AND subscriber = share.name", "share.most")}) AS chosen
    ORDER BY chosen.turn, chosen.id LIMIT %(most)s
"""  # noqa: S608 - constants only
_NEXT_NAME = """
    SELECT subscriber FROM tasks_task
    WHERE kind = %(kind)s AND state IN ('queued', 'retrying') AND subscriber {after} ORDER BY subscriber LIMIT 1
"""
_NAMES = f"""
    WITH RECURSIVE names(subscriber) AS (
        ({_NEXT_NAME.format(after=">= %(first)s")})
        UNION ALL
        SELECT ({_NEXT_NAME.format(after="> names.subscriber")}) FROM names WHERE names.subscriber IS NOT NULL
    )
    SELECT subscriber FROM names WHERE subscriber IS NOT NULL LIMIT %(most)s
"""  # noqa: S608 - constants only
_went_on_at: dict[str, str] = {}  # by kind: where the next look at names begins


def take(policy: KindPolicy, room: int, now: datetime) -> list[Task]:
    """Up to `room` tasks to start, locked, in the order in which they start. What others hold is passed over."""
    if room < 1:
        return []
    ids = (
        _within_shares(policy, room, now) if policy.has_shares else _rows(_OF_ALL, kind=policy.kind, now=now, most=room)
    )
    if not ids:
        return []
    rows = Task.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
    found = rows.filter(pk__in=ids, state__in=TO_START, next_attempt_at__lte=now).defer("result").in_bulk()
    return [found[pk] for pk in ids if pk in found]


def _within_shares(policy: KindPolicy, room: int, now: datetime) -> list[int]:
    shares = limits.shares(policy, _names(policy.kind), room, now)
    open_to = {name: most for name, most in shares.items() if most > 0}
    if not open_to:
        return []
    wanted = {"names": list(open_to), "shares": list(open_to.values())}
    return _rows(_OF_SHARES, kind=policy.kind, now=now, most=room, **wanted)


def _names(kind: str) -> Sequence[str]:
    """Subscribers with something waiting, from where the last look ended, and round."""
    first = _went_on_at.pop(kind, "")
    names: list[str] = _rows(_NAMES, kind=kind, first=first, most=NAMES_AT_ONCE)
    if len(names) == NAMES_AT_ONCE:
        _went_on_at[kind] = names[-1]
    elif first:
        names = list(dict.fromkeys([*names, *_rows(_NAMES, kind=kind, first="", most=NAMES_AT_ONCE)]))
    return names


def _rows(sql: str, **parameters: Any) -> list:  # type: ignore[type-arg]
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return [row[0] for row in cursor.fetchall()]
