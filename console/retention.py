"""Forget what is past its time on the operators' side, and tell the task side to do the same.

Finished operations go with their outcomes, alerts that are over, and audit entries; what is open stays, however old.
Dead letters of tasks are spared while an operation that may redrive or cancel them is under way.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db.models import QuerySet

from console.models import Alert, Operation, OperationItem
from kernel.models import AuditEntry
from tasks import retention as task_side

CHUNK = 1_000
UNDER_WAY = (Operation.State.RUNNING, Operation.State.PAUSED, Operation.State.STOPPED)
OF_TASKS = (Operation.Verb.REDRIVE_TASKS, Operation.Verb.CANCEL_TASKS)

log = structlog.get_logger(__name__)


@dataclass
class Pruned:
    """How much went; `tasks`: of the task side."""

    operations: int = 0
    operation_items: int = 0
    alerts: int = 0
    audit_entries: int = 0
    tasks: task_side.Pruned = field(default_factory=task_side.Pruned)
    is_done: bool = True


def prune(*, now: datetime, budget_seconds: float = 120.0, dry_run: bool = False) -> Pruned:
    """Oldest first, for at most `budget_seconds`."""
    ends = time.monotonic() + budget_seconds
    pruned = Pruned()
    in_use = Operation.objects.filter(state__in=UNDER_WAY, verb__in=OF_TASKS).exists()
    pruned.tasks = task_side.prune(
        now=now, budget_seconds=budget_seconds / 2, dry_run=dry_run, spares_dead_letters=in_use
    )
    for rows, count in _own(now):
        if dry_run:
            count(pruned, rows.count())
        else:
            _remove(rows, lambda number, count=count: count(pruned, number), ends)  # type: ignore[misc]
    pruned.is_done = pruned.tasks.is_done and time.monotonic() < ends
    if any((pruned.operations, pruned.operation_items, pruned.alerts, pruned.audit_entries)) and not dry_run:
        log.info("console_pruned", operations=pruned.operations, alerts=pruned.alerts, audit=pruned.audit_entries)
    return pruned


def _own(now: datetime) -> list[tuple[QuerySet[Any], Callable[[Pruned, int], None]]]:
    """What is old, and where it is counted. Outcomes before their operations."""
    found: list[tuple[QuerySet[Any], Callable[[Pruned, int], None]]] = []
    if days := settings.OPERATION_RETENTION_DAYS:
        over = Operation.objects.filter(finished_at__lt=now - timedelta(days=days)).exclude(state__in=UNDER_WAY)
        items = OperationItem.objects.filter(operation__in=over.order_by().values("pk"))
        found.append((items, lambda pruned, number: _add(pruned, "operation_items", number)))
        found.append((over, lambda pruned, number: _add(pruned, "operations", number)))
    if days := settings.ALERT_RETENTION_DAYS:
        over_alerts = Alert.objects.filter(state=Alert.State.RESOLVED, resolved_at__lt=now - timedelta(days=days))
        found.append((over_alerts, lambda pruned, number: _add(pruned, "alerts", number)))
    if days := settings.AUDIT_RETENTION_DAYS:
        entries = AuditEntry.objects.filter(at__lt=now - timedelta(days=days))
        found.append((entries, lambda pruned, number: _add(pruned, "audit_entries", number)))
    return found


def _add(pruned: Pruned, name: str, number: int) -> None:
    setattr(pruned, name, getattr(pruned, name) + number)


def _remove(rows: QuerySet[Any], count: Callable[[int], None], ends: float) -> None:
    """In chunks by id. The parts of an operation go with it, though a finished one has none."""
    while time.monotonic() < ends:
        ids = list(rows.order_by("pk").values_list("pk", flat=True)[:CHUNK])
        if not ids:
            return
        still = rows.model.objects.filter(pk__in=ids).order_by()
        if rows.model is Operation:
            count(still.delete()[1].get(Operation._meta.label, 0))
        else:
            count(still._raw_delete("default"))
