"""Forget what is past its time on the operators' side, and tell the task side to do the same.

Finished operations go with their outcomes, alerts that are over, and audit entries; what is open stays, however old.
Dead letters of tasks are spared while an operation that may redrive or cancel them is under way.
"""

import time
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
    if dry_run:
        return _counted(now, pruned)
    _prune_operations(now, pruned, ends)
    for rows, name in ((_old_alerts(now), "alerts"), (_old_entries(now), "audit_entries")):
        setattr(pruned, name, _remove(rows, ends))
    pruned.is_done = pruned.tasks.is_done and time.monotonic() < ends
    if pruned.operations or pruned.alerts or pruned.audit_entries:
        log.info("console_pruned", operations=pruned.operations, alerts=pruned.alerts, audit=pruned.audit_entries)
    return pruned


def _old_operations(now: datetime) -> QuerySet[Operation]:
    days = settings.OPERATION_RETENTION_DAYS
    rows = Operation.objects.filter(finished_at__lt=now - timedelta(days=days)).exclude(state__in=UNDER_WAY)
    return rows if days else rows.none()


def _old_alerts(now: datetime) -> QuerySet[Alert]:
    days = settings.ALERT_RETENTION_DAYS
    rows = Alert.objects.filter(state=Alert.State.RESOLVED, resolved_at__lt=now - timedelta(days=days))
    return rows if days else rows.none()


def _old_entries(now: datetime) -> QuerySet[AuditEntry]:
    """Among the lowest ids only: by time alone the whole trail would be read where nothing of it is old enough."""
    days = settings.AUDIT_RETENTION_DAYS
    lowest = AuditEntry.objects.order_by("pk").values("pk")[:CHUNK]
    rows = AuditEntry.objects.filter(pk__in=lowest, at__lt=now - timedelta(days=days))
    return rows if days else rows.none()


def _prune_operations(now: datetime, pruned: Pruned, ends: float) -> None:
    """One after the other: its outcomes in chunks, then the operation itself."""
    for operation in _old_operations(now).order_by("pk")[:CHUNK]:
        items = OperationItem.objects.filter(operation=operation).order_by("object_id")
        pruned.operation_items += _remove(items, ends)
        if time.monotonic() >= ends:
            return
        operation.delete()
        pruned.operations += 1


def _remove(rows: QuerySet[Any], ends: float) -> int:
    removed = 0
    while time.monotonic() < ends:
        ids = list(rows.values_list("pk", flat=True)[:CHUNK])
        if not ids:
            break
        removed += rows.model._base_manager.filter(pk__in=ids)._raw_delete("default")
    return removed


def _counted(now: datetime, pruned: Pruned) -> Pruned:
    """What would go now; of the audit trail at least so many."""
    old = _old_operations(now)
    pruned.operations = old.count()
    pruned.operation_items = OperationItem.objects.filter(operation__in=old.order_by().values("pk")).count()
    pruned.alerts, pruned.audit_entries = _old_alerts(now).count(), _old_entries(now).count()
    return pruned
