"""Snapshots of the whole: the start page's figures, and the alerts that are open."""

from datetime import datetime
from typing import Any

from console import figures
from console.live.snapshots.objects import batch_row
from console.live.topics import Topic
from console.models import Alert
from delivery import stats as delivery_stats
from kernel import clock
from tasks.models import Batch
from tasks.reading import stats as task_stats

BATCHES_SHOWN = 8


def stats(_topic: Topic) -> tuple[None, dict[str, Any]]:
    return None, stats_data(clock.now())


def stats_data(now: datetime) -> dict[str, Any]:
    """Ages are left to the page to count from the times, so that an idle house reads the same twice."""
    tasks, deliveries = task_stats.task_summary(now), delivery_stats.delivery_summary(now=now)
    for summary in (tasks, deliveries):
        for age in ("oldest_pending", "oldest_held"):
            summary.pop(age, None)
    return {
        "tasks": tasks,
        "deliveries": deliveries,
        "noticed": task_stats.noticed_last_hour(now),
        "endpoints": figures.worst_endpoints(),
        "processes": figures.processes(now),
        "batches": [batch_row(row) for row in Batch.objects.order_by("-id")[:BATCHES_SHOWN]],
    }


def alerts(_topic: Topic) -> tuple[None, dict[str, Any]]:
    rows = [alert_row(row) for row in figures.open_alerts()]
    return None, {"count": len(rows), "alerts": rows}


def alert_row(row: Alert) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "rule": row.rule,
        "subject": row.subject,
        "state": row.state,
        "title": row.title,
        "detail": row.detail,
        "advice": row.advice,
        "link": row.link,
        "value": row.value,
        "opened_at": row.opened_at,
        "acknowledged_at": row.acknowledged_at,
        "acknowledged_by": row.acknowledged_by,
        "resolved_at": row.resolved_at,
    }
