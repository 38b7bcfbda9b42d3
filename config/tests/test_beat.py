"""Beat goes on where one row of its table cannot be run."""

from types import SimpleNamespace

import pytest
from celery import current_app
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from config.beat import AGAIN_SECONDS, Scheduler
from console.health import schedule
from console.tests.health.test_schedule import WRONG, row

pytestmark = pytest.mark.django_db


@pytest.fixture
def beat():
    return Scheduler(app=current_app, lazy=True)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_row_that_cannot_be_read_is_passed_over_and_the_others_run(beat, wrong):
    one = row(**wrong)
    names = set(beat.all_as_schedule())
    assert one.name not in names
    assert len(names) == len(schedule.OURS)
    assert PeriodicTask.objects.get(pk=one.pk).enabled  # nobody switched it off behind the operator's back


def test_so_is_an_interval_beyond_the_calendar_and_it_is_logged_once(beat, caplog):
    row(interval=IntervalSchedule.objects.create(every=2_147_483_647, period="days"))
    for _ in range(3):
        assert "extra" not in beat.all_as_schedule()
    assert sum("schedule_row_unusable" in record.getMessage() for record in caplog.records) == 1


def test_a_row_whose_time_breaks_later_is_looked_at_again_and_stops_nobody(beat):
    def fails():
        raise OverflowError

    due = beat.is_due(SimpleNamespace(model=PeriodicTask(pk=7), is_due=fails))
    assert (due.is_due, due.next) == (False, AGAIN_SECONDS)
