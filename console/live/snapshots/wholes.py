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


def stats(topic: Topic) -> tuple[None, dict[str, Any]]:
    return None, stats_data(clock.now(), dict(topic.filter).get("side"))


def stats_data(now: datetime, side: str | None = None) -> dict[str, Any]:
    """Of both sides, or of one. Ages are left to the page to count from the times, so that an idle house reads the same
    twice."""
    data: dict[str, Any] = {"processes": figures.processes(now)}
    if side != "deliveries":
        data |= {
            "tasks": _without_ages(task_stats.task_summary(now)),
            "noticed": task_stats.noticed_last_hour(now),
            "batches": [batch_row(row) for row in Batch.objects.order_by("-id")[:BATCHES_SHOWN]],
        }
    if side != "tasks":
        data |= {
            "deliveries": _without_ages(delivery_stats.delivery_summary(now=now)),
            "endpoints": figures.worst_endpoints(),
        }
    return data


def _without_ages(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name not in {"oldest_pending", "oldest_held"}}


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
