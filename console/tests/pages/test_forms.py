"""Every form of the console writes what the person changed, and shows a conflict where both sides changed one field."""

import html
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from delivery import endpoints
from delivery.models import Endpoint
from delivery.tests import factories
from kernel.auth import create_key
from kernel.models import ApiKey
from kernel.tests.pages import fields_of
from tasks.models import KindPolicy, Schedule

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/in?token=s3cret"
WHO = {"actor": "key:api"}


@pytest.fixture(autouse=True)
def no_name_service(monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ())


@pytest.fixture
def browser(client, django_user_model):
    client.force_login(django_user_model.objects.create(username="root", is_staff=True, is_superuser=True))
    return client


def _page(row):
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def _saved(answer):
    errors = {} if answer.status_code == 302 else answer.context["adminform"].form.errors.as_data()
    assert (answer.status_code, errors) == (302, {})


def _text(answer):
    return html.unescape(answer.content.decode())


def test_only_the_name_changes_when_the_api_changed_the_rest(browser):
    endpoint = factories.endpoint(url=URL, headers={"x-key": "old"}, name="Before", body_rule={"success": "ok"})
    opened = fields_of(browser.get(_page(endpoint)))
    moved = {
        "url": "https://moved.example.com/in", "timeout_ms": 3_000, "headers": {"x-key": "new"},
        "event_types": ["order.*"], "transient_codes": [401], "rate_per_minute": 60, "ordering_key": "data.click",
        "body_rule": {"refused": "no"},
    }  # fmt: skip
    endpoints.update(endpoint, moved, **WHO)
    answer = browser.post(_page(endpoint), {**opened, "name": "After"})
    _saved(answer)
    row = Endpoint.objects.get()
    assert {name: getattr(row, name) for name in moved} == moved
    assert (row.name, row.host, row.version) == ("After", "moved.example.com", 3)


def test_both_values_are_shown_where_both_sides_changed_one_field(browser):
    endpoint = factories.endpoint(url=URL, name="Before", timeout_ms=15_000)
    opened = fields_of(browser.get(_page(endpoint)))
    endpoints.update(endpoint, {"timeout_ms": 3_000}, **WHO)
    mine = {**opened, "timeout_ms": "9000", "name": "After"}
    answer = browser.post(_page(endpoint), mine)
    assert answer.status_code == 200
    assert "it says “3000” now, and you wrote “9000”" in _text(answer)
    row = Endpoint.objects.get()
    assert (row.name, row.timeout_ms, row.version) == ("Before", 3_000, 2)
    again = browser.post(_page(endpoint), fields_of(answer))  # the person has seen it, and wants theirs
    _saved(again)
    row.refresh_from_db()
    assert (row.name, row.timeout_ms) == ("After", 9_000)


def test_after_a_conflict_theirs_can_be_kept(browser):
    endpoint = factories.endpoint(url=URL, timeout_ms=15_000)
    opened = fields_of(browser.get(_page(endpoint)))
    endpoints.update(endpoint, {"timeout_ms": 3_000}, **WHO)
    answer = browser.post(_page(endpoint), {**opened, "timeout_ms": "9000", "name": "After"})
    _saved(browser.post(_page(endpoint), {**fields_of(answer), "timeout_ms": "3000"}))
    row = Endpoint.objects.get()
    assert (row.name, row.timeout_ms) == ("After", 3_000)


def test_what_changes_while_the_name_service_is_asked_is_a_conflict_too(browser, monkeypatch):
    endpoint = factories.endpoint(url=URL, timeout_ms=15_000, max_attempts=5)
    opened = fields_of(browser.get(_page(endpoint)))

    def slow(_host, _seconds):
        endpoints.update(endpoint, {"timeout_ms": 3_000, "max_attempts": 9}, **WHO)
        return ()

    monkeypatch.setattr("delivery.endpoint_rules.within", slow)
    mine = {**opened, "url": "https://new.example.com/", "timeout_ms": "9000"}
    assert "it says “3000” now, and you wrote “9000”" in _text(browser.post(_page(endpoint), mine))
    _saved(browser.post(_page(endpoint), {**mine, "timeout_ms": opened["timeout_ms"]}))
    row = Endpoint.objects.get()
    assert (row.url, row.timeout_ms, row.max_attempts) == ("https://new.example.com/", 3_000, 9)


def test_both_sides_wrote_the_same_and_that_is_no_conflict(browser):
    endpoint = factories.endpoint(url=URL)
    opened = fields_of(browser.get(_page(endpoint)))
    endpoints.update(endpoint, {"timeout_ms": 3_000}, **WHO)
    _saved(browser.post(_page(endpoint), {**opened, "timeout_ms": "3000"}))
    assert Endpoint.objects.get().timeout_ms == 3_000


def test_a_form_saved_without_a_change_changes_nothing(browser):
    endpoint = factories.endpoint(url=URL, headers={"x": "y"}, ca_certificate="", body_rule={"success": "ok"})
    before = Endpoint.objects.values().get()
    _saved(browser.post(_page(endpoint), fields_of(browser.get(_page(endpoint)))))
    after = Endpoint.objects.values().get()
    assert before == after


def test_a_value_that_would_be_refused_today_does_not_stand_in_the_way(browser):
    endpoint = factories.endpoint(url=URL, ordering_key="click_id")
    opened = fields_of(browser.get(_page(endpoint)))
    _saved(browser.post(_page(endpoint), {**opened, "name": "After"}))
    refused = browser.post(_page(endpoint), {**opened, "ordering_key": "other"})
    assert "other names nothing in an event: write data.other" in _text(refused)


def _policy():
    return KindPolicy.objects.create(kind="scoring", concurrency=5, attempt_limit=3)


def _schedule():
    return Schedule.objects.create(
        name="nightly",
        kind="map_search",
        input={"trade": "bakery", "place": "Oslo"},
        every_seconds=3600,
        starts_at=timezone.now(),
    )


def _key():
    create_key("ci", ["tasks:read"])
    return ApiKey.objects.get()


def _group():
    group = Group.objects.create(name="operators")
    group.permissions.set(Permission.objects.all()[:2])
    return group


def _user():
    return User.objects.create(username="ada", email="ada@example.com", password="!x", is_staff=True)


def _periodic():
    every = IntervalSchedule.objects.create(every=5, period="minutes")
    return PeriodicTask.objects.create(name="mine", task="tasks.start", interval=every, description="a")


LATER = timezone.now() + timedelta(days=30)


@pytest.mark.parametrize(
    ("make", "mine", "theirs"),
    [
        (_policy, {"concurrency": "7"}, {"attempt_limit": 9, "is_paused": True, "timeout_seconds": 77}),
        (_schedule, {"name": "daily"}, {"every_seconds": 60, "input": {"trade": "baker", "place": "Rome"}}),
        (_key, {"name": "ci 2"}, {"expires_at": LATER, "revoked_at": LATER}),
        (_group, {"name": "others"}, {}),
        (_user, {"first_name": "Ada"}, {"email": "new@example.com", "is_staff": False}),
        (_periodic, {"description": "b"}, {"args": "[1]", "enabled": False, "total_run_count": 7}),
        (lambda: IntervalSchedule.objects.create(every=5, period="days"), {"period": "hours"}, {"every": 9}),
        (lambda: CrontabSchedule.objects.create(hour="1"), {"minute": "7"}, {"hour": "3"}),
    ],
)
def test_a_form_left_open_puts_nothing_back(browser, make, mine, theirs):
    row = make()
    opened = fields_of(browser.get(_page(row)))
    type(row).objects.filter(pk=row.pk).update(**theirs)
    answer = browser.post(_page(row), {**opened, **mine})
    _saved(answer)
    row = type(row).objects.get(pk=row.pk)
    assert {name: str(getattr(row, name)) for name in mine} == mine
    assert {name: getattr(row, name) for name in theirs} == theirs


def test_a_groups_permissions_stay_as_somebody_else_left_them(browser):
    group = _group()
    opened = fields_of(browser.get(_page(group)))
    group.permissions.set(Permission.objects.all()[5:8])
    _saved(browser.post(_page(group), {**opened, "name": "others"}))
    assert set(group.permissions.all()) == set(Permission.objects.all()[5:8])
    opened = fields_of(browser.get(_page(group)))
    group.permissions.clear()
    wanted = [str(pk) for pk in Permission.objects.values_list("pk", flat=True)[:1]]
    answer = browser.post(_page(group), {**opened, "permissions": wanted})
    assert "Somebody changed this while the form was open" in _text(answer)
    assert not group.permissions.exists()
