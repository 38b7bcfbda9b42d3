"""Calls that are turned away: what they are told, and how much of them is kept. SQL: two counters.

Anybody can send calls that are refused, so what is stored of them is bounded by the hour and, in bytes, by the day;
what is beyond is only counted. Genuine events are not bounded by it, and no row of the counters is locked for one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import Sum

from kernel import clock, correlation
from webhooks.models import OUR_FAULTS, InboundEvent, InboundVerdict, Refusal, RefusedCall, RefusedDay
from webhooks.schemes import EVENT_ID_HEADERS
from webhooks.sources import Source

STORED_PER_HOUR = 100  # for each source and reason; beyond, calls are only counted
BODY_BYTES = 64 * 1024
ROW_BYTES = 1024  # what a row takes on disk beside its body: columns, headers, indexes
KEPT_HEADERS = ("content-type", "content-encoding", "user-agent", correlation.HEADER, *EVENT_ID_HEADERS)
HEADER_CHARACTERS = 500  # of each kept header
RETRY_AFTER_SECONDS = 30  # where the fault is ours
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Reply:
    """What the provider is told."""

    status_code: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One inbound call, as it came. Header names are lower case."""

    source: Source
    raw: bytes
    headers: Mapping[str, str]
    remote_addr: str | None = None

    def row(self) -> dict[str, Any]:
        """What an event's row keeps of it."""
        return {
            "provider": self.source.provider.name,
            "body": self.raw,
            "body_bytes": len(self.raw),
            "headers": kept_headers(self.headers, self.source.provider.kept_headers),
            "remote_addr": self.remote_addr,
            "correlation_id": correlation.current(),
        }


def kept_headers(headers: Mapping[str, str], more: tuple[str, ...] = ()) -> dict[str, str]:
    """The headers that judging needs, as text that a database takes; a long one is cut, and says so."""
    names = dict.fromkeys((*KEPT_HEADERS, *more))
    return {name: _storable(headers[name]) for name in names if name in headers}


def _storable(value: str) -> str:
    text = "".join(filter(str.isprintable, value)).encode("utf-8", "replace").decode()
    if len(text) <= HEADER_CHARACTERS:
        return text
    return f"{text[:HEADER_CHARACTERS]}… (cut: {len(text):,} characters)"


def refusal(status_code: int, reason: Refusal, detail: str = "") -> Reply:
    told = f"{reason.label}: {detail}" if detail else str(reason.label)
    return Reply(status_code, {"status": "refused", "reason": reason.value, "detail": told})


def refuse(call: Call, verdict: InboundVerdict, reason: Refusal) -> Reply:
    """Turn a call away: counted, and stored with its reason as long as it is no flood."""
    if count(call.source.name, reason) <= STORED_PER_HOUR:
        log.warning("inbound_call_refused", source=call.source.name, reason=reason.value)
        head = call.raw[:BODY_BYTES]
        if _has_room(call.source.name, len(head) + ROW_BYTES):
            InboundEvent.objects.create(
                source=call.source.name,
                dedupe_key=f"sha256:{sha256(call.raw).hexdigest()}",
                verdict=verdict,
                verdict_reason=reason,
                judged_at=clock.now(),
                **{**call.row(), "body": head},
            )
    return _told(verdict, reason)


def _told(verdict: InboundVerdict, reason: Refusal) -> Reply:
    if reason in OUR_FAULTS:
        said = refusal(503, reason, "Nothing was taken; please send it again")
        return Reply(said.status_code, said.body, {"Retry-After": str(RETRY_AFTER_SECONDS)})
    if reason == Refusal.TOO_LARGE:
        return refusal(413, reason)
    return refusal(401 if verdict == InboundVerdict.REFUSED else 400, reason)


def count(source: str, reason: Refusal) -> int:
    """One more refused call of this source and reason in this hour of the database; returns how many that makes."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {RefusedCall._meta.db_table} AS refused (source, reason, hour, count)"  # noqa: S608
            " VALUES (%s, %s, date_trunc('hour', now(), 'UTC'), 1)"
            " ON CONFLICT (source, reason, hour) DO UPDATE SET count = refused.count + 1 RETURNING count",
            [source, reason.value],
        )
        return cursor.fetchone()[0]


_TODAY = "(now() AT TIME ZONE 'UTC')::date"


def _has_room(source: str, size: int) -> bool:
    """Take `size` bytes out of the source's budget of today, if they are left in it; else count the call there."""
    budget = settings.INBOUND_REFUSED_BYTES_A_DAY
    table = RefusedDay._meta.db_table
    with connection.cursor() as cursor:
        if size <= budget:
            cursor.execute(
                f"INSERT INTO {table} AS today (source, day, stored_count, stored_bytes, beyond_count)"  # noqa: S608
                f" VALUES (%s, {_TODAY}, 1, %s, 0) ON CONFLICT (source, day) DO UPDATE"
                " SET stored_count = today.stored_count + 1, stored_bytes = today.stored_bytes + EXCLUDED.stored_bytes"
                " WHERE today.stored_bytes + EXCLUDED.stored_bytes <= %s RETURNING 1",
                [source, size, budget],
            )
            if cursor.fetchone():
                return True
        cursor.execute(
            f"INSERT INTO {table} AS today (source, day, stored_count, stored_bytes, beyond_count)"  # noqa: S608
            f" VALUES (%s, {_TODAY}, 0, 0, 1) ON CONFLICT (source, day) DO UPDATE"
            " SET beyond_count = today.beyond_count + 1 RETURNING beyond_count",
            [source],
        )
        is_first = cursor.fetchone()[0] == 1
    if is_first:
        log.error("inbound_refused_budget_used_up", source=source, bytes=budget)
    return False


def budgets() -> list[dict[str, Any]]:
    """The database's day by source: refused calls, those that are stored, their bytes, and whether there is room."""
    now = clock.now()
    begins = datetime(now.year, now.month, now.day, tzinfo=UTC)
    hours = RefusedCall.objects.filter(hour__gte=begins, hour__lt=begins + timedelta(days=1))
    refused = dict(hours.order_by().values_list("source").annotate(Sum("count")))
    days = {row.source: row for row in RefusedDay.objects.filter(day=begins.date())}
    return [_budget(source, refused.get(source, 0), days.get(source)) for source in sorted({*refused, *days})]


def _budget(source: str, refused: int, day: RefusedDay | None) -> dict[str, Any]:
    return {
        "source": source,
        "refused": refused,
        "stored": day.stored_count if day else 0,
        "bytes": day.stored_bytes if day else 0,
        "budget": settings.INBOUND_REFUSED_BYTES_A_DAY,
        "is_used_up": bool(day and day.beyond_count),
    }
