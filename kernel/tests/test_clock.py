"""The one clock: the database's, whatever the host's says, and no query for asking."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from kernel import clock
from kernel.auth import Scope, create_key
from kernel.models import ApiKey

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


class HostAhead(datetime):
    """What a host an hour ahead takes for now."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + HOUR


@pytest.fixture
def host_ahead(monkeypatch):
    monkeypatch.setattr(clock, "datetime", HostAhead)
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime.now(UTC) + HOUR)
    clock.measure()
    yield
    monkeypatch.undo()
    clock.measure()


def database_now():
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def test_it_is_the_databases_time_and_never_ahead_of_it(host_ahead):
    ours = [clock.now() for _ in range(100)]
    after = database_now()
    assert ours == sorted(ours)
    assert ours[-1] <= after
    assert after - ours[-1] < timedelta(minutes=1)


def test_asking_is_no_query(django_assert_num_queries):
    clock.measure()
    with django_assert_num_queries(0):
        assert clock.now() <= clock.now()


def test_how_far_the_host_is_ahead_is_measured_with_half_the_round_trip(host_ahead):
    reading = clock.measure()
    assert abs(reading.ahead_seconds - 3600) < 60
    assert reading.round_trip_seconds >= 0


def test_a_slow_round_trip_is_not_taken_for_a_clock_that_is_off():
    class Slow:
        def cursor(self):
            return self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def execute(self, _sql):
            time.sleep(0.2)
            self.row = (datetime.now(UTC),)
            time.sleep(0.2)
            return self

        def fetchone(self):
            return self.row

    reading = clock._sample(Slow())
    assert reading.round_trip_seconds >= 0.4
    assert abs(reading.ahead_seconds) < reading.round_trip_seconds / 2


def test_a_host_clock_that_is_set_moves_nothing(monkeypatch):
    before = clock.now()
    monkeypatch.setattr(clock, "datetime", HostAhead)
    assert clock.now() - before < HOUR


def test_rows_are_stamped_by_it(host_ahead):
    create_key("a", [Scope.TASKS_READ])
    assert ApiKey.objects.get().created_at <= database_now()


def test_without_a_reading_and_without_a_database_the_host_stands_in(monkeypatch):
    def none(*_):
        raise OSError

    monkeypatch.setattr(clock, "_reading", None)
    monkeypatch.setattr(clock, "measure", none)
    assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 60
    assert clock._reading is None
