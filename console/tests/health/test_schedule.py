"""Beat's schedule: what beat could not run is refused on saving, and told where it stands."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from console.alerts import schedule_rules
from console.health import schedule
from kernel.models import AuditEntry
from kernel.tests.pages import fields_of

pytestmark = pytest.mark.django_db
WRONG = [
    {"headers": '"x"'},
    {"headers": "[1]"},
    {"headers": "{"},
    {"args": "{}"},
    {"args": "[" * 100_000},
    {"kwargs": "[1]"},
]


@pytest.fixture
def client(operator):
    client = Client(raise_request_exception=False)
    client.force_login(operator)
    return client


def row(**values):
    minute = IntervalSchedule.objects.get_or_create(every=60, period="seconds")[0]
    return PeriodicTask.objects.create(name="extra", **{"task": "tasks.poll", "interval": minute, **values})


def address(model, page="add", *args):
    return reverse(f"admin:django_celery_beat_{model}_{page}", args=args)


def test_the_rows_that_a_new_installation_has_can_be_run():
    assert schedule.unusable() == []
    assert schedule.missing() == {}
    assert set(PeriodicTask.objects.values_list("task", flat=True)) == schedule.OURS


@pytest.mark.parametrize("wrong", WRONG)
def test_a_row_that_beat_cannot_read_is_refused_on_saving_in_words(client, wrong):
    one = row()
    form = fields_of(client.get(address("periodictask", "change", one.pk)))
    answer = client.post(address("periodictask", "change", one.pk), {**form, **wrong})
    assert answer.status_code == 200
    assert next(iter(wrong)) in answer.content.decode()
    name = next(iter(wrong))
    assert getattr(PeriodicTask.objects.get(pk=one.pk), name) == getattr(one, name)


@pytest.mark.parametrize("wrong", WRONG)
def test_such_a_row_that_stands_already_is_an_alert(wrong):
    one = row(**wrong)
    assert [finding.subject for finding in schedule_rules.unusable(timezone.now())] == [str(one.pk)]


def test_an_interval_beyond_the_calendar_is_refused_and_told(client):
    answer = client.post(address("intervalschedule"), {"every": 2_147_483_647, "period": "days"})
    assert "days; choose less" in answer.content.decode() or "cannot be computed" in answer.content.decode()
    assert not IntervalSchedule.objects.filter(every=2_147_483_647).exists()
    row(interval=IntervalSchedule.objects.create(every=2_147_483_647, period="days"))
    assert len(schedule.unusable()) == 1


@pytest.mark.parametrize("minute", ["-1", "1,2,", "60", "*/0", "a", "", "1-", "5 1", "%ED%A0%80", "١"])
def test_minutes_that_no_crontab_has_are_refused(client, minute):
    times = {"hour": "*", "day_of_month": "*", "month_of_year": "*", "day_of_week": "*", "timezone": "UTC"}
    times |= {f"periodictask_set-{name}_FORMS": "0" for name in ("TOTAL", "INITIAL")}
    answer = client.post(address("crontabschedule"), {**times, "minute": minute})
    assert answer.status_code == 200
    assert not CrontabSchedule.objects.filter(minute=minute).exists()
    good = client.post(address("crontabschedule"), {**times, "minute": "*/7"})
    assert good.status_code == 302, good.context["errors"]


def test_a_worker_function_that_does_not_exist_is_refused(client):
    form = fields_of(client.get(address("periodictask", "change", row().pk)))
    answer = client.post(address("periodictask"), {**form, "name": "other", "regtask": "", "task": "tasks.nope"})
    assert "There is no worker function of this name" in answer.content.decode()
    assert not PeriodicTask.objects.filter(name="other").exists()


def test_the_products_own_rows_are_switched_off_but_not_deleted_and_an_alert_says_so(client):
    poll = PeriodicTask.objects.get(task="tasks.poll")
    assert client.post(address("periodictask", "delete", poll.pk), {"post": "yes"}).status_code == 403
    ticked = {"action": "delete_selected", "_selected_action": [poll.pk], "post": "yes"}
    client.post(address("periodictask", "changelist"), ticked)
    client.post(address("intervalschedule", "delete", poll.interval_id), {"post": "yes"})
    assert PeriodicTask.objects.filter(task="tasks.poll").count() == 1
    PeriodicTask.objects.filter(pk=poll.pk).update(enabled=False)
    [finding] = schedule_rules.missing(timezone.now())
    assert (finding.subject, "switched off" in finding.detail) == ("tasks.poll", True)
    second = row()
    assert schedule_rules.missing(timezone.now()) == []
    assert client.post(address("periodictask", "delete", second.pk), {"post": "yes"}).status_code == 302
    assert not PeriodicTask.objects.filter(pk=second.pk).exists()


def test_a_change_of_the_schedule_is_in_the_audit_trail(client):
    one = row()
    form = fields_of(client.get(address("periodictask", "change", one.pk)))
    assert client.post(address("periodictask", "change", one.pk), {**form, "description": "why"}).status_code == 302
    entry = AuditEntry.objects.get(subject="schedule_row")
    assert (entry.verb, entry.object_ids, entry.detail) == ("update", [one.pk], {"fields": ["description"]})
