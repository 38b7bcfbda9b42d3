"""The figures of tasks: how many in each state, what waits longest, how the last hour went, who noticed ends.

Tasks that are open or dead letters are counted one by one: it takes the longer the more there are. The last hour is
read from the newest part of append-only logs (`RECENT` rows; beyond that a figure is marked as an estimate).
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Avg, Count, F, Max, Min, Q, QuerySet

from tasks.models import ExternalJob, KindPolicy, Task, Transition
from tasks.states import OPEN_STATES, State

HOUR = timedelta(hours=1)
RECENT = 100_000
WAITING_TASKS = ["scheduled", "queued", "retrying", "fetching"]


def task_summary(now: datetime, subscriber: str | None = None) -> dict[str, Any]:
    """The specification's one row (S2.9), for tasks. As for deliveries: ages in seconds, times ISO 8601 UTC."""
    states = [*OPEN_STATES, State.DEAD_LETTER.value]
    rows = _tasks(subscriber).filter(state__in=states).order_by()
    counts = dict(rows.values_list("state").annotate(count=Count("pk")))
    hour = _last_hour(now, subscriber)
    oldest = oldest_waiting(now, subscriber)
    return {
        "scheduled": counts.get("scheduled", 0),
        "pending": counts.get("queued", 0),
        "awaiting_retry": counts.get("retrying", 0),
        "in_flight": counts.get("running", 0) + counts.get("fetching", 0),
        "dead_letter": counts.get("dead_letter", 0),
        "succeeded_last_hour": hour["succeeded"],
        "failed_last_hour": hour["failed"],
        "oldest_pending": round((now - oldest).total_seconds(), 1) if oldest else None,
        "oldest_pending_at": oldest.isoformat() if oldest else None,
        "avg_task_ms_last_hour": hour["avg_ms"],
        "held": held(subscriber),
        "last_hour_is_estimate": hour["is_estimate"],
    }


def _tasks(subscriber: str | None) -> QuerySet[Task]:
    return Task.objects.all() if subscriber is None else Task.objects.filter(subscriber=subscriber)


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
    """When the task that waits longest fell due; tasks of paused kinds are held and do not count."""
    paused = KindPolicy.objects.filter(is_paused=True).values("kind")
    due = _tasks(subscriber).filter(state__in=WAITING_TASKS, next_attempt_at__lte=now).exclude(kind__in=paused)
    return due.aggregate(oldest=Min("next_attempt_at"))["oldest"]


def held(subscriber: str | None = None) -> int:
    paused = KindPolicy.objects.filter(is_paused=True).values("kind")
    return _tasks(subscriber).filter(state__in=["scheduled", "queued", "retrying"], kind__in=paused).count()


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
