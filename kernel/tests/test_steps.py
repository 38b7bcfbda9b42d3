"""A step that breaks keeps no other from its work, and is known until it has worked again."""

import pytest
from django.db import OperationalError, transaction

from kernel import steps
from kernel.models import BrokenStep

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_remembered():
    steps._looked_at.clear()


def breaks():
    raise KeyError("SECRET of a row")


def test_a_step_that_breaks_is_known_by_its_name_and_class_and_never_by_its_words():
    assert [steps.guarded("tasks: adopt", breaks) for _ in range(3)] == [False] * 3
    row = BrokenStep.objects.get()
    assert (row.name, row.error, row.count) == ("tasks: adopt", "KeyError", 3)
    assert row.since < row.last_at


def test_the_next_good_run_takes_it_away_in_whichever_process():
    steps.guarded("tasks: adopt", breaks)
    BrokenStep.objects.create(name="other", error="x", since="2026-01-01T00:00Z", last_at="2026-01-01T00:00Z")
    steps._looked_at.clear()  # another process
    assert steps.guarded("tasks: adopt", lambda: None)
    assert list(BrokenStep.objects.values_list("name", flat=True)) == ["other"]


def test_a_step_that_works_costs_no_query_at_each_run(django_assert_num_queries):
    steps.guarded("tasks: adopt", lambda: None)
    with django_assert_num_queries(0):
        for _ in range(20):
            assert steps.guarded("tasks: adopt", lambda: None)


def test_a_step_that_breaks_after_it_worked_and_works_again_leaves_nothing():
    for step in (lambda: None, breaks, lambda: None):
        steps.guarded("tasks: adopt", step)
    assert not BrokenStep.objects.exists()


def gone():
    raise OperationalError


def test_a_lock_or_a_time_out_is_one_steps_fault():
    assert not steps.guarded("tasks: adopt", gone)
    assert BrokenStep.objects.get().error == "OperationalError"


def test_without_a_database_whoever_waits_is_told(monkeypatch):
    monkeypatch.setattr(steps.connection, "is_usable", lambda: False)
    with pytest.raises(OperationalError):
        steps.guarded("tasks: adopt", gone)
    assert not BrokenStep.objects.exists()


def test_a_step_that_breaks_its_callers_transaction_is_in_the_log_and_breaks_nothing_more(caplog):
    with pytest.raises(transaction.TransactionManagementError), transaction.atomic():
        assert not steps.guarded("tasks: adopt", lambda: breaks_transaction())
        transaction.get_connection().validate_no_broken_transaction()


def breaks_transaction():
    transaction.set_rollback(True)
    raise ValueError
