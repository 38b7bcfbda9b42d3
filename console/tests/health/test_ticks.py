"""Beat's due times go by the database's clock, not by its host's."""

from datetime import UTC, datetime, timedelta

import pytest
from celery import current_app
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, PeriodicTasks

from console.health import ticks
from kernel import clock

pytestmark = pytest.mark.django_db


@pytest.fixture
def every_minute():
    every = IntervalSchedule.objects.create(every=60, period="seconds")
    return PeriodicTask.objects.create(name="mine", task="tasks.start", interval=every)


def test_an_entry_is_due_by_our_clock(every_minute, monkeypatch):
    now = clock.now()
    every_minute.last_run_at = now
    entry = ticks.Entry(every_minute, app=current_app)
    assert not entry.is_due().is_due
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=61))
    entry = ticks.Entry(every_minute, app=current_app)
    assert entry.is_due().is_due
    assert next(entry).last_run_at == now + timedelta(seconds=61)


def test_what_a_beat_an_hour_ahead_left_behind_does_not_stop_the_next_for_an_hour(every_minute):
    every_minute.last_run_at = clock.now() + timedelta(hours=1)
    state = ticks.Entry(every_minute, app=current_app).is_due()
    assert state.next <= 60


def test_crontabs_too(monkeypatch):
    at = CrontabSchedule.objects.create(minute="30", hour="4", timezone="Europe/Berlin")
    entry = PeriodicTask.objects.create(name="nightly", task="tasks.start", crontab=at)
    entry.last_run_at = datetime(2026, 6, 1, 0, 0, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 6, 1, 2, 29, tzinfo=UTC))
    assert not ticks.Entry(entry, app=current_app).is_due().is_due
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 6, 1, 2, 31, tzinfo=UTC))
    assert ticks.Entry(entry, app=current_app).is_due().is_due


def test_a_change_from_a_host_behind_is_noticed():
    changes = ticks.Changes()
    PeriodicTasks.objects.update_or_create(ident=1, defaults={"last_update": clock.now()})
    first = changes.last_change()
    assert changes.last_change() == first
    PeriodicTasks.objects.update(last_update=clock.now() - timedelta(hours=1))
    assert changes.last_change() > first
