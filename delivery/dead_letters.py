"""Dead letters as debugging data: which failures are the same one, what pattern they make, what to do about it.

A fingerprint names a cause: endpoint, outcome, status code and the error without its accidents (numbers, ids,
addresses). The algorithm has a version, so that an upgrade never regroups what is stored. Reads only; redrive and
discard are verbs of `delivery.lifecycle`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Max, Min, Q, QuerySet
from django.db.models import Count as RowCount
from django.db.models.functions import TruncDate, TruncHour

from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.policy.holds import FIELD_MISSING, NOT_RENDERED
from delivery.policy.outcomes import REFUSALS, SUCCESSES, Outcome
from delivery.policy.postback import is_refusal_of_ours, is_refusal_of_the_event
from delivery.states import State
from kernel import clock, counting
from kernel.counting import Count

FINGERPRINT_VERSION = "1"
CHUNK = 1_000
CLUSTER_COUNT = 50  # specification S2.11: 50 for one endpoint in one hour
RESUME_REDRIVES_MOST = 1_000
STREAK_REACHES_BACK = timedelta(days=1)
SLOW_DAYS = 3
GROUPS_SHOWN = 100
SLOW_MOST_A_DAY = 5
# Whose outcome says that the receiver was not there, and whose that we were not able: no pattern of theirs then.
NOT_REACHED = (Outcome.TIMEOUT, Outcome.CONNECTION, Outcome.DNS, Outcome.SERVER_ERROR)
NOT_THEIRS = ("poison", Outcome.RESCUED, Outcome.OWN_FAULT, Outcome.BLOCKED, FIELD_MISSING, "held_too_long")

_ACCIDENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"https?://\S+", re.I), "<url>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\[?\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}\]?", re.I), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", re.I), "<id>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
)

KEPT = (
    "Its endpoint was deleted, so it cannot be redriven; it is kept and asks for nothing. It can be discarded, or "
    "moved to another endpoint: Settle its dead letters, on the endpoint's page."
)
_BY_OUTCOME: dict[str, str] = {
    Outcome.TIMEOUT: "The receiver is too slow. Raise the timeout, lower the concurrency, or ask them; then redrive.",
    Outcome.CONNECTION: "Not reached, or it dropped the request but may have it: see the error. If it is up, redrive.",
    Outcome.DNS: "The host name does not resolve. Correct the endpoint's URL, or wait for their DNS; then redrive.",
    Outcome.TLS: "The certificate is not acceptable. They must renew it (or set the endpoint's own CA); then redrive.",
    Outcome.SERVER_ERROR: "The receiver failed on its side. Wait until it is healed; then redrive.",
    Outcome.THROTTLED: "We send more than they accept. Set a rate limit on the endpoint; then redrive.",
    Outcome.REDIRECT: "The receiver moved. Put the new address into the endpoint's URL; then redrive.",
    Outcome.REFUSED: "The receiver's body says no. Read the answer on the attempt, correct the data or discard it.",
    Outcome.BLOCKED: "We may not call that address. Correct the URL, or allow it in DELIVERY_ALLOWED_NETWORKS.",
    FIELD_MISSING: "Correct the endpoint's template, or what it does about missing fields; then redrive.",
    NOT_RENDERED: "Its request would be too large, or its event cannot be read. Shorten the endpoint's template and "
    "redrive it, or discard it.",
    Outcome.RESCUED: "Workers died on this delivery again and again. Look at the worker's log before you redrive it.",
    "poison": "Workers died on this delivery, or our code failed on it, again and again: see the error and the "
    "worker's log. Mend that, or discard it; then redrive.",
    "held_too_long": "Its endpoint was held for more than 14 days. Resume or enable the endpoint; then redrive.",
    Outcome.GONE: "The receiver says it is gone for good. Delete the endpoint, or give it a new URL and enable it.",
}
_BY_CODE: dict[int, str] = {
    401: "The receiver does not take our signature or credentials. Give it the endpoint's secret (rotate it to see "
    "one), or correct the endpoint's headers; then resume and redrive.",
    403: "Credentials were rotated or rights withdrawn. Set the new ones on the endpoint; then resume and redrive.",
    404: "The address is gone. Correct the endpoint's URL; then redrive.",
    413: "The body is too large for them. Ask them to raise their limit; then redrive.",
    429: "We are above their rate limit. Set a rate limit on the endpoint; then redrive.",
}


def normalise(error: str) -> str:
    """The error without what differs each time: numbers, ids, addresses, URLs."""
    for pattern, stand_in in _ACCIDENTS:
        error = pattern.sub(stand_in, error)
    return " ".join(error.lower().split())


def fingerprint(endpoint_id: int, outcome: str, status_code: int | None, error: str) -> str:
    """32 hex digits; equal for failures of one cause."""
    parts = (FINGERPRINT_VERSION, str(endpoint_id), outcome, str(status_code or ""), normalise(error))
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def what_to_do(outcome: str, status_code: int | None, error: str = "") -> str:
    """One sentence for an operator: what to change before a redrive helps."""
    if outcome == Outcome.BLOCKED and is_refusal_of_ours(error):
        return _BY_OUTCOME[NOT_RENDERED if is_refusal_of_the_event(error) else FIELD_MISSING]
    if status_code in _BY_CODE and outcome in {Outcome.REJECTED, Outcome.THROTTLED}:
        return _BY_CODE[status_code or 0]
    if outcome == Outcome.REJECTED:
        return "The receiver refuses this request. Read its answer on the attempt, correct the cause; then redrive."
    return _BY_OUTCOME.get(outcome, "Read the last attempt, correct the cause; then redrive.")


def dead_letters(
    *,
    endpoint: int | None = None,
    subscriber: str | None = None,
    outcome: str | None = None,
    status_code: int | None = None,
    group: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Delivery]:
    """The dead letters a filter names; `since` and `until` are times of death.

    None narrows nothing; an empty text means exactly that, such as the operators' own for `subscriber`.
    """
    conditions: dict[str, Any] = {
        "endpoint_id": endpoint,
        "endpoint__subscriber": subscriber,
        "last_outcome": outcome,
        "last_status_code": status_code,
        "fingerprint": group,
        "finished_at__gte": since,
        "finished_at__lt": until,
    }
    given = {name: value for name, value in conditions.items() if value is not None}
    return Delivery.objects.filter(state=State.DEAD_LETTER, **given)


def redrivable(rows: QuerySet[Delivery]) -> QuerySet[Delivery]:
    """Those of these dead letters that a redrive can move: nothing is sent to an endpoint that was deleted."""
    return rows.filter(endpoint__deleted_at=None)


def redrivable_count() -> Count:
    """How many dead letters can be redriven, among the first `counting.LIMIT` there are: all may be kept ones."""
    dead = dead_letters()
    found = redrivable(counting.among(dead)).count()
    return Count(found, counting.capped(dead).is_capped)


def kept_count(rows: QuerySet[Delivery]) -> Count:
    """How many of these dead letters were kept; counted as far as `counting.LIMIT` of them."""
    return Count(kept(counting.among(rows)).count(), counting.capped(rows).is_capped)


def kept(rows: QuerySet[Delivery]) -> QuerySet[Delivery]:
    """Those of these dead letters that were kept when their endpoint was deleted: nobody has to do anything."""
    return rows.filter(endpoint__deleted_at__isnull=False)


def left_out_words(count: Count) -> str:
    """Of a redrive, what is left out because its endpoint was deleted; "" where nothing is."""
    if not count.number:
        return ""
    if count.words == "1":
        return "1 dead letter is left out: its endpoint was deleted. It can be discarded, or moved to another endpoint."
    words = (
        "dead letters are left out: their endpoints were deleted. They can be discarded, or moved to another endpoint."
    )
    return f"{count.words} {words}"


def burnt_by_refusals(endpoint: Endpoint) -> list[int]:
    """The dead letters of the refusals in a row that made this endpoint need attention."""
    rows = dead_letters(endpoint=endpoint.pk, since=_streak_began(endpoint))
    refused = rows.filter(last_outcome__in=[str(outcome) for outcome in REFUSALS])
    return list(refused.order_by("id").values_list("id", flat=True)[:RESUME_REDRIVES_MOST])


def _streak_began(endpoint: Endpoint) -> datetime:
    """Refusals in a row cannot reach behind the last success before the hold; a good test came after it."""
    held_at = endpoint.attention_at or clock.now()
    earliest = held_at - STREAK_REACHES_BACK
    last_success = EndpointHealth.objects.values_list("last_success_at", flat=True).get(endpoint=endpoint)
    if last_success is not None and last_success >= held_at:
        last_success = _last_success_before(endpoint, earliest, held_at)
    return max(earliest, last_success or earliest)


def _last_success_before(endpoint: Endpoint, earliest: datetime, until: datetime) -> datetime | None:
    good = Attempt.objects.filter(endpoint=endpoint.pk, started_at__gte=earliest, started_at__lt=until)
    good = good.filter(outcome__in=[str(outcome) for outcome in SUCCESSES]).order_by("-started_at")
    row = good.values_list("started_at", "total_ms").first()
    return row[0] + timedelta(milliseconds=row[1] or 0) if row is not None else None


def id_chunks(rows: QuerySet[Delivery], size: int = CHUNK) -> Iterator[list[int]]:
    """Ids of a frozen set, oldest first, chunk by chunk: rows that arrive later are not in it."""
    watermark = rows.order_by("-id").values_list("id", flat=True).first()
    last = 0
    while watermark is not None:
        ids = list(rows.filter(id__gt=last, id__lte=watermark).order_by("id").values_list("id", flat=True)[:size])
        if not ids:
            return
        yield ids
        last = ids[-1]


@dataclass(frozen=True)
class Group:
    """Dead letters of one cause."""

    fingerprint: str
    endpoint: int
    endpoint_name: str
    subscriber: str
    host: str
    outcome: str
    status_code: int | None
    error: str
    count: int
    first_at: datetime
    last_at: datetime
    sample: int
    what_to_do: str
    is_kept: bool = False

    @property
    def label(self) -> str:
        return _label(self.endpoint, self.endpoint_name, self.subscriber, self.host)


def _label(endpoint: int, name: str, subscriber: str, host: str) -> str:
    """An endpoint as people tell it from others on the same host: “shop of acme, endpoint 7 (hooks.acme.example)”."""
    whose = " of ".join(part for part in (name, subscriber) if part)
    return f"{whose}, endpoint {endpoint} ({host})" if whose else f"Endpoint {endpoint} ({host})"


def groups(rows: QuerySet[Delivery], limit: int = GROUPS_SHOWN) -> list[Group]:
    """The biggest groups of these dead letters, biggest first."""
    endpoint = ("endpoint_id", "endpoint__name", "endpoint__subscriber", "endpoint__host", "endpoint__deleted_at")
    keys = ("fingerprint", *endpoint, "last_outcome", "last_status_code")
    found = list(
        rows.order_by()
        .values(*keys)
        .annotate(count=RowCount("id"), first=Min("finished_at"), last=Max("finished_at"), sample=Max("id"))
        .order_by("-count", "-sample")[:limit]
    )
    errors = dict(Delivery.objects.filter(id__in=[row["sample"] for row in found]).values_list("id", "last_error"))
    return [
        Group(
            fingerprint=row["fingerprint"],
            endpoint=row["endpoint_id"],
            endpoint_name=row["endpoint__name"],
            subscriber=row["endpoint__subscriber"],
            host=row["endpoint__host"],
            outcome=row["last_outcome"],
            status_code=row["last_status_code"],
            error=errors.get(row["sample"], ""),
            count=row["count"],
            first_at=row["first"],
            last_at=row["last"],
            sample=row["sample"],
            what_to_do=_advice(row, errors.get(row["sample"], "")),
            is_kept=row["endpoint__deleted_at"] is not None,
        )
        for row in found
    ]


def _advice(row: Any, error: str) -> str:
    if row["endpoint__deleted_at"] is not None:
        return KEPT
    return what_to_do(row["last_outcome"], row["last_status_code"], error)


@dataclass(frozen=True)
class Finding:
    """What one endpoint's dead letters of the last hours say."""

    endpoint: int
    endpoint_name: str
    subscriber: str
    host: str
    count: int
    common_error: str
    common_status_code: int | None
    first_at: datetime
    last_at: datetime
    mean_attempts: float
    patterns: list[str]
    advice: list[str]

    @property
    def label(self) -> str:
        return _label(self.endpoint, self.endpoint_name, self.subscriber, self.host)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def analyze(hours: int, now: datetime, subscriber: str | None = None) -> list[Finding]:
    """One finding for each endpoint with dead letters in the last `hours`, most first (specification S2.11)."""
    rows = dead_letters(since=now - timedelta(hours=hours), subscriber=subscriber)
    per_endpoint = (
        rows.order_by()
        .values("endpoint_id", "endpoint__name", "endpoint__subscriber", "endpoint__host", "endpoint__deleted_at")
        .annotate(count=RowCount("id"), first=Min("finished_at"), last=Max("finished_at"), mean=Avg("attempt_count"))
        .order_by("-count")
    )
    return [_finding(dict(row), rows.filter(endpoint_id=row["endpoint_id"])) for row in per_endpoint]


def _finding(row: dict[str, Any], rows: QuerySet[Delivery]) -> Finding:
    error = _most_common(rows.exclude(last_error=""), "last_error") or ""
    code = _most_common(rows.exclude(last_status_code=None), "last_status_code")
    is_kept = row["endpoint__deleted_at"] is not None  # what would help a live endpoint helps it no more
    outcome = _most_common(rows, "last_outcome") or ""
    looks = () if is_kept or outcome in NOT_THEIRS else (_cluster(rows), _status(rows, row["count"]), _slow(rows))
    found = dict(pattern for pattern in looks if pattern)
    return Finding(
        endpoint=row["endpoint_id"],
        endpoint_name=row["endpoint__name"],
        subscriber=row["endpoint__subscriber"],
        host=row["endpoint__host"],
        count=row["count"],
        common_error=error,
        common_status_code=code,
        first_at=row["first"],
        last_at=row["last"],
        mean_attempts=round(float(row["mean"] or 0), 1),
        patterns=list(found),
        advice=list(found.values()) or [KEPT if is_kept else what_to_do(outcome, code, error)],
    )


def _most_common(rows: QuerySet[Delivery], field: str) -> Any:
    top = rows.order_by().values(field).annotate(n=RowCount("id")).order_by("-n", field).first()
    return top[field] if top else None


def _cluster(rows: QuerySet[Delivery]) -> tuple[str, str] | None:
    down = rows.filter(last_outcome__in=NOT_REACHED)
    hour = down.order_by().values(hour=TruncHour("finished_at")).annotate(n=RowCount("id")).order_by("-n").first()
    if hour is None or hour["n"] < CLUSTER_COUNT:
        return None
    return "cluster", (
        f"{hour['n']} died within one hour from {hour['hour']:%Y-%m-%d %H:%M} UTC: the endpoint was down longer than "
        "its retry window. Choose a longer retry profile, and redrive these once it is up."
    )


def _status(rows: QuerySet[Delivery], total: int) -> tuple[str, str] | None:
    locked_out = rows.filter(last_status_code__in=[401, 403]).count()
    limited = rows.filter(Q(last_status_code=429) | Q(last_outcome=Outcome.THROTTLED)).count()
    if locked_out * 2 > total:
        return "status_code", (
            f"{locked_out} of {total} were answered 401 or 403: credentials were rotated and nobody updated the "
            "endpoint. Set the new ones, resume the endpoint, redrive."
        )
    if limited * 2 > total:
        return "status_code", (
            f"{limited} of {total} were answered 429: we send above their rate limit. Set a rate limit on the "
            "endpoint (rate_per_minute), then redrive."
        )
    return None


def _slow(rows: QuerySet[Delivery]) -> tuple[str, str] | None:
    days = list(rows.order_by().values(day=TruncDate("finished_at")).annotate(n=RowCount("id")))
    if len(days) < SLOW_DAYS or any(day["n"] > SLOW_MOST_A_DAY for day in days):
        return None
    return "slow_accumulation", (
        f"At most {max(day['n'] for day in days)} a day over {len(days)} days: intermittent faults use up the "
        "retries. Give this endpoint more attempts, or a shorter timeout if it hangs."
    )
