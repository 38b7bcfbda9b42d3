"""Operations, alerts and the audit trail past their time; and what spares the tasks' dead letters."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from console import retention
from console.models import Alert, Operation, OperationItem
from kernel import audit, clock
from kernel.models import AuditEntry
from tasks.models import Task

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def now() -> datetime:
    return clock.now()


@pytest.fixture(autouse=True)
def days(settings: Any) -> None:
    settings.OPERATION_RETENTION_DAYS = settings.ALERT_RETENTION_DAYS = 90
    settings.AUDIT_RETENTION_DAYS = 0


def operation(state: str, finished_at: datetime | None) -> Operation:
    row = Operation.objects.create(verb="redrive_tasks", state=state, finished_at=finished_at, actor="me", reason="r")
    OperationItem.objects.create(operation=row, object_id=1, outcome="done")
    return row


def test_finished_operations_go_with_their_outcomes_and_open_ones_stay(now: datetime) -> None:
    operation("completed", now)
    kept = [operation("completed", now + DAY), operation("running", None), operation("paused", None)]
    done = retention.prune(now=now + 90 * DAY + timedelta(hours=1))
    assert (done.operations, done.operation_items) == (1, 1)
    assert set(Operation.objects.all()) == set(kept) and OperationItem.objects.count() == 3


def test_alerts_that_are_over_go_and_open_ones_stay(now: datetime) -> None:
    times = {"opened_at": now, "last_seen_at": now}
    Alert.objects.create(rule="a", state="resolved", resolved_at=now, **times)
    Alert.objects.create(rule="a", state="open", **times)
    Alert.objects.create(rule="b", state="acknowledged", acknowledged_at=now, **times)
    assert retention.prune(now=now + 91 * DAY).alerts == 1
    assert set(Alert.objects.values_list("state", flat=True)) == {"open", "acknowledged"}


def test_the_audit_trail_stays_unless_its_setting_says_otherwise(now: datetime, settings: Any) -> None:
    audit.record("me", "redrive", "task", [1])
    assert retention.prune(now=now + 4000 * DAY).audit_entries == 0
    settings.AUDIT_RETENTION_DAYS = 365
    assert retention.prune(now=now + 364 * DAY).audit_entries == 0
    assert retention.prune(now=now + 366 * DAY).audit_entries == 1 and not AuditEntry.objects.exists()


@pytest.mark.parametrize(("state", "spared"), [("running", True), ("stopped", True), ("completed", False)])
def test_an_operation_under_way_spares_dead_letters_of_tasks(
    now: datetime, settings: Any, state: str, spared: bool
) -> None:
    settings.TASK_DEAD_LETTER_RETENTION_DAYS = 100
    at = {"run_at": now, "next_attempt_at": now, "finished_at": now}
    Task.objects.create(kind="scoring", input={}, state="dead_letter", correlation_id="c", **at)
    operation(state, None if spared else now)
    retention.prune(now=now + 101 * DAY)
    assert Task.objects.exists() is spared


def test_the_command_counts_first_and_then_removes(now: datetime, settings: Any) -> None:
    settings.ALERT_RETENTION_DAYS = 1
    Alert.objects.create(
        rule="a", state="resolved", resolved_at=now - 2 * DAY, opened_at=now - 2 * DAY, last_seen_at=now - 2 * DAY
    )
    out = StringIO()
    call_command("prune", "--dry-run", "--json", stdout=out)
    assert json.loads(out.getvalue())["others"]["alerts"] == 1 and Alert.objects.count() == 1
    out = StringIO()
    call_command("prune", stdout=out)
    assert "1 alerts" in out.getvalue() and not Alert.objects.exists()
