"""Days of attempts: made ahead, filled from the default, dropped when old."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from delivery.maintenance import partitions
from delivery.models import Attempt

pytestmark = pytest.mark.django_db


def attempt(at: datetime) -> Attempt:
    return Attempt.objects.create(delivery_id=1, endpoint_id=1, number=1, outcome="delivered", started_at=at)


def where(attempt: Attempt) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM delivery_attempt WHERE id = %s", [attempt.pk])
        return cursor.fetchone()[0]


def test_the_migration_made_two_weeks():
    today = timezone.now().date()
    assert {today + timedelta(days=n) for n in range(13)} <= partitions.standing()


def test_rows_of_a_day_without_partition_are_moved_when_it_is_made():
    far = datetime(2090, 5, 1, 12, tzinfo=UTC)
    early, late = attempt(far), attempt(far + timedelta(days=1, hours=11, minutes=59))
    assert where(early) == where(late) == "delivery_attempt_default"
    made = partitions.ensure(now=far, days_ahead=1)
    assert made == [f"delivery_attempt_{day}" for day in ("20900430", "20900501", "20900502")]
    assert (where(early), where(late)) == ("delivery_attempt_20900501", "delivery_attempt_20900502")
    assert partitions.ensure(now=far, days_ahead=1) == []


def test_every_partition_has_every_column_standing_or_made_later():
    partitions.ensure(now=datetime(2091, 5, 1, tzinfo=UTC), days_ahead=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg(a.attname || coalesce(pg_get_expr(d.adbin, d.adrelid), '') ORDER BY a.attnum) "
            "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
            "WHERE a.attnum > 0 AND a.attrelid IN (SELECT inhrelid FROM pg_inherits "
            "WHERE inhparent = 'delivery_attempt'::regclass UNION SELECT 'delivery_attempt'::regclass) "
            "GROUP BY a.attrelid"
        )
        shapes = {tuple(row[0]) for row in cursor.fetchall()}
    assert len(shapes) == 1
    assert {field.column for field in Attempt._meta.fields} == {
        name.split("''")[0].removesuffix("false").removesuffix("0") for name in shapes.pop()
    }


def test_old_days_are_dropped_and_nothing_else():
    long_ago = datetime(2020, 5, 1, 12, tzinfo=UTC)
    partitions.ensure(now=long_ago, days_ahead=1)
    old, stray, new = attempt(long_ago), attempt(long_ago - timedelta(days=90)), attempt(timezone.now())
    dropped = partitions.drop_before(datetime(2020, 5, 2, tzinfo=UTC).date())
    assert dropped == ["delivery_attempt_20200430", "delivery_attempt_20200501"]
    assert set(Attempt.objects.values_list("pk", flat=True)) == {new.pk}, (old, stray)
