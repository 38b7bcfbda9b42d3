"""How long deliveries take, counted in SQL: histograms a minute, percentiles over 24 hours, who grows slow.

The engine counts in memory (`Recorder`) and writes every few seconds, so a minute's row costs next to nothing on the
way of a delivery; a killed worker loses the last seconds of these counts and nothing else, since attempts are the
record. Percentiles are exact (`percentile_cont` over the attempts) up to 100,000 samples of an endpoint, and beyond
that read from the histograms, whose buckets grow by a fifth: off by 10 % at most.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q

from delivery.models import Endpoint, EndpointHealth, StatsMinute
from kernel.live_hints import touched

FIRST_MS, GROWTH, BUCKETS = 0.5, 1.2, 72  # the last bucket begins at about 210 s
MOST_MS = 1e12
USUAL = ("total", "queue_wait", "first_byte")
OF_A_NEW_CONNECTION = ("dns", "connect", "tls")
PHASES = (*USUAL, *OF_A_NEW_CONNECTION)
EXACT_MOST = 100_000
SAMPLES_MOST = 2**31 - 1  # what its column holds
OFTEN_MOST = 10_000  # an endpoint with more samples is measured every ten minutes
SELDOM = timedelta(minutes=10)
WINDOW = timedelta(hours=24)
AT_ONCE = 10_000  # endpoints of one round: more than its time is enough for; the next takes the others
SLOW_P95_MS, SLOW_LEAST_SAMPLES = 2_000.0, 20
LATELY = timedelta(hours=1)
SHARES = (0.5, 0.95, 0.99)
# Whatever never reached the receiver says nothing about its speed.
NOT_MEASURED = frozenset({"rescued", "own_fault", "blocked", "poison"})

_SCALE = 1 / math.log(GROWTH)
log = structlog.get_logger(__name__)


def bucket_of(ms: float) -> int:
    """0 holds what is under half a millisecond; bucket n from there reaches from 0.5·1.2ⁿ⁻¹ to 0.5·1.2ⁿ."""
    if not ms >= FIRST_MS:  # nor is what is no number at all
        return 0
    if ms > MOST_MS:
        return BUCKETS - 1
    bucket = int(math.log(ms / FIRST_MS) * _SCALE) + 1
    return bucket if bucket < BUCKETS else BUCKETS - 1


def middle_of(bucket: int) -> float:
    """The value that stands for a bucket: its geometric middle."""
    return FIRST_MS / 2 if bucket == 0 else FIRST_MS * GROWTH ** (bucket - 0.5)


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The value below which this share of a histogram lies."""
    total = sum(counts)
    wanted, seen = share * total, 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return middle_of(bucket)
    return None


class Recorder:
    """Counts of one process, by endpoint and minute, until they are written."""

    def __init__(self) -> None:
        self._histograms: dict[tuple[int, int, tuple[str, str, str]], list[list[int]]] = {}
        self._outcomes: dict[tuple[int, int, str], list[float]] = {}

    def add(self, endpoint_id: int, at: float, outcome: str, queue_wait_ms: float, result: Any) -> None:
        """Count one attempt that began `at` (Unix seconds). `result` is a TransferResult, or None for no transfer."""
        minute = int(at) // 60
        counted = self._outcomes.get((endpoint_id, minute, outcome))
        if counted is None:
            counted = self._outcomes[endpoint_id, minute, outcome] = [0, 0.0]
        counted[0] += 1
        if result is None or outcome in NOT_MEASURED:
            return
        took = result.total_ms
        counted[1] += took if 0.0 <= took <= MOST_MS else min(max(took, 0.0), MOST_MS)
        total, wait, first = self._phases(endpoint_id, minute, USUAL)
        total[bucket_of(result.total_ms)] += 1
        wait[bucket_of(queue_wait_ms)] += 1
        first[bucket_of(result.first_byte_ms)] += 1
        if not result.reused:
            dns, connect, tls = self._phases(endpoint_id, minute, OF_A_NEW_CONNECTION)
            dns[bucket_of(result.dns_ms)] += 1
            connect[bucket_of(result.connect_ms)] += 1
            if result.tls_ms:
                tls[bucket_of(result.tls_ms)] += 1

    def _phases(self, endpoint_id: int, minute: int, phases: tuple[str, str, str]) -> list[list[int]]:
        found = self._histograms.get((endpoint_id, minute, phases))
        if found is None:
            found = self._histograms[endpoint_id, minute, phases] = [[0] * BUCKETS for _ in phases]
        return found

    def flush(self) -> None:
        """Add what was counted to the minutes' rows, in their order, so that two workers never wait in a circle."""
        if not self._outcomes:
            return
        outcomes = sorted(self._outcomes.items())
        histograms = sorted(
            ((endpoint_id, minute, phase), counts)
            for (endpoint_id, minute, phases), three in self._histograms.items()
            for phase, counts in zip(phases, three, strict=True)
            if any(counts)
        )
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                _ADD_OUTCOMES, [*_keys(outcomes), [n for _, (n, _) in outcomes], [ms for _, (_, ms) in outcomes]]
            )
            if histograms:
                counts = ["{" + ",".join(map(str, histogram)) + "}" for _, histogram in histograms]
                cursor.execute(_ADD_COUNTS, [*_keys(histograms), counts])
        self._histograms.clear()
        self._outcomes.clear()


def _keys(items: Sequence[tuple[tuple[int, int, str], Any]]) -> list[list[Any]]:
    """Three columns: endpoint, minute, word."""
    return [[k[0] for k, _ in items], [_moment(k[1]) for k, _ in items], [k[2] for k, _ in items]]


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


# Only of endpoints that still stand: the row of a deleted one would break all others'.
_ADD_OUTCOMES = """
INSERT INTO delivery_statsminute AS s (endpoint_id, minute, outcome, count, total_ms)
SELECT n.* FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::int[], %s::float8[])
    AS n(endpoint_id, minute, outcome, count, total_ms) JOIN delivery_endpoint e ON e.id = n.endpoint_id
ORDER BY 1, 2, 3
ON CONFLICT (endpoint_id, minute, outcome)
DO UPDATE SET count = s.count + excluded.count, total_ms = s.total_ms + excluded.total_ms
"""
_ADD_COUNTS = """
INSERT INTO delivery_latencybucket AS b (endpoint_id, minute, phase, counts)
SELECT n.endpoint_id, n.minute, n.phase, n.counts::int[]
FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::text[]) AS n(endpoint_id, minute, phase, counts)
JOIN delivery_endpoint e ON e.id = n.endpoint_id
ORDER BY 1, 2, 3
ON CONFLICT (endpoint_id, minute, phase) DO UPDATE SET counts = (
    SELECT array_agg(coalesce(x, 0) + coalesce(y, 0) ORDER BY i)
    FROM unnest(b.counts, excluded.counts) WITH ORDINALITY AS u(x, y, i))
"""


# --- percentiles --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Measured:
    """Percentiles of one endpoint over a window. `phases` is {phase: {"p50", "p95", "p99"}} in milliseconds."""

    sample_count: int
    phases: dict[str, dict[str, float]]
    is_exact: bool

    def of(self, name: str) -> float | None:
        return self.phases.get("total", {}).get(name)


def refresh(*, now: datetime, budget_seconds: float = 30.0) -> int:
    """Measure every endpoint that had attempts since it was last measured; returns how many were.

    Ends early when the budget is used up; the longest unmeasured come first, so nobody is left out for long.
    """
    deadline = time.monotonic() + budget_seconds
    measured = 0
    for endpoint_id, last in _to_measure(now):
        if time.monotonic() > deadline:
            log.warning("latency_refresh_unfinished", measured=measured)
            break
        _store(endpoint_id, last, now)
        measured += 1
    if measured:
        touched("stats")
    return measured


def _to_measure(now: datetime) -> list[tuple[int, datetime | None]]:
    """Endpoints with attempts since, or whose last figures have left the window; the longest unmeasured first."""
    lately = StatsMinute.objects.filter(endpoint=OuterRef("endpoint_id"), minute__gte=now - WINDOW)
    big_ones_seldom = Q(sample_count__lte=OFTEN_MOST) | Q(measured_at__lte=now - SELDOM)
    due = EndpointHealth.objects.filter(
        big_ones_seldom & Q(measured_at__isnull=False) | Q(measured_at__isnull=True) & Exists(lately),
        endpoint__deleted_at__isnull=True,
    )
    return list(
        due.order_by(F("measured_at").asc(nulls_first=True), "pk").values_list("endpoint_id", "measured_at")[:AT_ONCE]
    )


def _store(endpoint_id: int, last: datetime | None, now: datetime) -> None:
    if last is not None and not _had_attempts(endpoint_id, last - timedelta(minutes=2), now) and now - last < SELDOM:
        return
    measured = measure(endpoint_id, now - WINDOW, now)
    day_before = measure_by_histogram(endpoint_id, now - 2 * WINDOW, now - WINDOW)
    p95 = measured.of("p95")
    is_slow = _is_slow(measured) and not _is_cured(endpoint_id, now)
    was_slow = EndpointHealth.objects.filter(pk=endpoint_id, is_slow=True).exists()
    EndpointHealth.objects.filter(pk=endpoint_id).update(
        p50_ms=measured.of("p50"),
        p95_ms=p95,
        p99_ms=measured.of("p99"),
        sample_count=min(measured.sample_count, SAMPLES_MOST),
        phases=measured.phases,
        p95_day_before_ms=day_before.of("p95"),
        is_slow=is_slow,
        measured_at=now,
    )
    if is_slow and not was_slow:
        host = Endpoint.objects.values_list("host", flat=True).get(pk=endpoint_id)
        log.warning("endpoint_slow", endpoint=endpoint_id, host=host, p95_ms=round(p95 or 0))
    touched(f"endpoint:{endpoint_id}")


def _is_slow(measured: Measured) -> bool:
    p95 = measured.of("p95")
    return p95 is not None and p95 > SLOW_P95_MS and measured.sample_count >= SLOW_LEAST_SAMPLES


def _is_cured(endpoint_id: int, now: datetime) -> bool:
    """Enough answers of the last hour were quick: what was slow before that stays in the day's figure, and no alert."""
    lately = measure_by_histogram(endpoint_id, now - LATELY, now)
    p95 = lately.of("p95")
    return p95 is not None and p95 <= SLOW_P95_MS and lately.sample_count >= SLOW_LEAST_SAMPLES


def _had_attempts(endpoint_id: int, since: datetime, until: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM delivery_statsminute WHERE endpoint_id = %s AND minute BETWEEN %s AND %s)",
            [endpoint_id, since, until],
        )
        return bool(cursor.fetchone()[0])


def measure(endpoint_id: int, since: datetime, until: datetime) -> Measured:
    """Exact while the window holds at most 100,000 attempts, else by the histograms."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT 1 FROM delivery_attempt WHERE endpoint_id = %s AND started_at >= %s "
            "AND started_at < %s LIMIT %s) x",
            [endpoint_id, since, until, EXACT_MOST + 1],
        )
        if cursor.fetchone()[0] > EXACT_MOST:
            return measure_by_histogram(endpoint_id, since, until)
        cursor.execute(_EXACT, [list(SHARES)] * len(PHASES) + [endpoint_id, since, until, sorted(NOT_MEASURED)])
        count, *values = cursor.fetchone()
    phases = {
        phase: _named(three) for phase, three in zip(PHASES, values, strict=True) if three and three[0] is not None
    }
    return Measured(count, phases, True)


_EXACT = (
    "SELECT count(*), "  # noqa: S608 - constants only
    + ", ".join(f"percentile_cont(%s::float8[]) WITHIN GROUP (ORDER BY {phase}_ms)" for phase in PHASES)
    + " FROM delivery_attempt WHERE endpoint_id = %s AND started_at >= %s AND started_at < %s"
    " AND NOT outcome = ANY(%s)"
)


def measure_by_histogram(endpoint_id: int, since: datetime, until: datetime) -> Measured:
    """Percentiles from the minutes' histograms; each is off by 10 % at most."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT phase, i, sum(x) FROM delivery_latencybucket, unnest(counts) WITH ORDINALITY AS u(x, i) "
            "WHERE endpoint_id = %s AND minute >= %s AND minute < %s GROUP BY phase, i HAVING sum(x) > 0",
            [endpoint_id, since, until],
        )
        rows = cursor.fetchall()
    histograms: dict[str, list[int]] = {}
    for phase, position, count in rows:
        histograms.setdefault(phase, [0] * BUCKETS)[position - 1] = int(count)
    phases = {phase: _named([percentile(counts, s) for s in SHARES]) for phase, counts in histograms.items()}
    return Measured(sum(histograms.get("total", [])), phases, False)


def _named(values: Iterable[float | None]) -> dict[str, float]:
    return {name: round(v, 1) for name, v in zip(("p50", "p95", "p99"), values, strict=True) if v is not None}
