"""The figures of tasks: how many in each state, what waits longest, how the last hour went, who noticed ends.

Counts stop at `counting.LIMIT` rows and are then the planner's estimate; of one subscriber they stop where a window
does (`kernel.database.windows`). Both are named in `estimated`. The last hour is read from the newest part of
append-only logs (`RECENT` rows; beyond that a figure is marked as an estimate).
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Avg, Count, F, Max, Min, Q, QuerySet

from kernel import counting
from kernel.database import windows
from tasks.kinds import KINDS
from tasks.models import ExternalJob, KindPolicy, Task, Transition
from tasks.states import State

HOUR = timedelta(hours=1)
RECENT = 100_000
WAITING_TASKS = ["scheduled", "queued", "retrying", "fetching"]
COUNTED = {  # figures, and the states that they sum up
    "scheduled": ("scheduled",),
    "pending": ("queued",),
    "awaiting_retry": ("retrying",),
    "in_flight": ("running", "fetching"),
    "dead_letter": ("dead_letter",),
}


def task_summary(now: datetime, subscriber: str | None = None) -> dict[str, Any]:
    """The specification's one row (S2.9), for tasks. As for deliveries: ages in seconds, times ISO 8601 UTC."""
    counts = {name: _count([{"state": state} for state in states], subscriber) for name, states in COUNTED.items()}
    counts["held"] = _held(subscriber)
    hour = _last_hour(now, subscriber)
    oldest = oldest_waiting(now, subscriber)
    return {
        **{name: number for name, (number, _) in counts.items()},
        "estimated": sorted(name for name, (_, is_estimate) in counts.items() if is_estimate),
        "succeeded_last_hour": hour["succeeded"],
        "failed_last_hour": hour["failed"],
        "oldest_pending": round((now - oldest).total_seconds(), 1) if oldest else None,
        "oldest_pending_at": oldest.isoformat() if oldest else None,
        "avg_task_ms_last_hour": hour["avg_ms"],
        "last_hour_is_estimate": hour["is_estimate"],
    }


def _count(wanted: list[dict[str, str]], subscriber: str | None) -> tuple[int, bool]:
    """How many tasks meet one of these conditions, and whether that is no more than an estimate."""
    number, is_estimate = 0, False
    for condition in wanted:
        rows = Task.objects.filter(**condition)
        if subscriber is None:
            found, is_rough = counting.count(rows)
        else:
            window = windows.of(rows.filter(subscriber=subscriber), is_by_id=False)
            found, is_rough = window.rows.count(), window.is_cut
        number, is_estimate = number + found, is_estimate or is_rough
    return number, is_estimate


def _last_hour(now: datetime, subscriber: str | None) -> dict[str, Any]:
    newest = Transition.objects.aggregate(newest=Max("id"))["newest"] or 0
    recent = Transition.objects.filter(id__gt=newest - RECENT)
    if subscriber is not None:
        recent = recent.filter(task__subscriber=subscriber)
    rows = recent.filter(at__gte=now - HOUR).aggregate(
        succeeded=Count("pk", filter=Q(to_state=State.SUCCEEDED)),
        failed=Count("pk", filter=Q(to_state__in=[State.RETRYING, State.DEAD_LETTER])),
        avg=Avg(F("at") - F("task__started_at"), filter=Q(to_state=State.SUCCEEDED)),
        seen=Count("pk"),
    )
    average = rows["avg"].total_seconds() * 1000 if rows["avg"] is not None else None
    return {
        "succeeded": rows["succeeded"],
        "failed": rows["failed"],
        "avg_ms": round(average, 1) if average is not None else None,
        "is_estimate": rows["seen"] >= RECENT,
    }


def oldest_waiting(now: datetime, subscriber: str | None = None) -> datetime | None:
    """When the task that waits longest fell due; tasks of paused kinds are held and do not count.

    One probe of the due index for each kind; of one subscriber, among those of each kind that have waited longest.
    """
    found = [_first_due(kind, now, subscriber) for kind in _kinds(is_paused=False)]
    return min((moment for moment in found if moment is not None), default=None)


def _first_due(kind: str, now: datetime, subscriber: str | None) -> datetime | None:
    due = Task.objects.filter(kind=kind, state__in=WAITING_TASKS, next_attempt_at__lte=now).order_by("next_attempt_at")
    if subscriber is None:
        return due.values_list("next_attempt_at", flat=True).first()
    longest = Task.objects.filter(pk__in=due.values("pk")[: counting.LIMIT], subscriber=subscriber)
    return longest.aggregate(oldest=Min("next_attempt_at"))["oldest"]


def _kinds(*, is_paused: bool) -> list[str]:
    """The kinds that are paused, or all others: those the code knows, and those that have a policy."""
    paused = dict(KindPolicy.objects.values_list("kind", "is_paused"))
    return sorted(kind for kind in {*paused, *KINDS} if paused.get(kind, False) == is_paused)


def _held(subscriber: str | None) -> tuple[int, bool]:
    """How many tasks wait because their kind is paused."""
    held = Task.objects.filter(state__in=WAITING_TASKS, kind__in=_kinds(is_paused=True))
    is_rough = counting.capped(held).is_capped
    rows = counting.among(held).filter(state__in=["scheduled", "queued", "retrying"])
    return (rows if subscriber is None else rows.filter(subscriber=subscriber)).count(), is_rough


def noticed_last_hour(now: datetime) -> dict[str, Any]:
    """Who noticed the ends of external jobs: webhook or poll; and the words where webhooks stayed away."""
    newest = ExternalJob.objects.aggregate(newest=Max("id"))["newest"] or 0
    ended = ExternalJob.objects.filter(id__gt=newest - RECENT, finished_at__gte=now - HOUR)
    noticed = noticed_by(ended)
    total = noticed["webhook"] + noticed["poll"]
    shares = {name: round(100 * noticed[name] / total) if total else 0 for name in ("webhook", "poll", "silent")}
    return {**noticed, "total": total, "shares": shares, "words": silence_words(noticed)}


def noticed_by(jobs: QuerySet[ExternalJob]) -> dict[str, int]:
    """Of these finished jobs: whose end a webhook told, whose the poll found, and for how many no webhook ever came."""
    poll = Q(finished_by="poll")
    return jobs.aggregate(
        webhook=Count("pk", filter=Q(finished_by="webhook")),
        poll=Count("pk", filter=poll),
        silent=Count("pk", filter=poll & Q(last_webhook_at=None)),
    )


def silence_words(noticed: dict[str, int]) -> str:
    """What the console says where webhooks did not come; empty where they did."""
    silent = noticed["silent"]
    if not silent:
        return ""
    what = "1 job; the poll finished it" if silent == 1 else f"{silent} jobs; the poll finished them"
    if noticed["webhook"]:
        return f"No webhook arrived for {what}."
    where = settings.PUBLIC_BASE_URL or "an address that is not set (PUBLIC_BASE_URL)"
    return f"No webhook arrived for {what}. Not one came: check that the provider can reach {where}."
