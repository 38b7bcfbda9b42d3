"""Schedules over the API: made, changed, paused, run now; a bound key has its own."""

from datetime import timedelta

import pytest
from django.utils.dateparse import parse_datetime

from kernel import clock
from tasks.models import Schedule, ScheduleRun, Task

URL = "/api/v1/schedules/"
NEW = {"name": "Bars", "kind": "map_search", "input": {"trade": "bar", "place": "Oslo"}, "crontab": "30 7 * * MON-FRI"}


@pytest.fixture
def acme(client_with):
    return client_with("tasks:read", "tasks:write", subscriber="acme")


def made(client, **fields) -> dict:
    response = client.post(URL, {**NEW, **fields}, format="json")
    assert response.status_code == 201, response.json()
    return response.json()


def test_it_is_made_and_says_when_it_is_due_next(client):
    shown = made(client, time_zone="Europe/Warsaw")
    assert (shown["crontab"], shown["is_enabled"], shown["catch_up"]) == ("30 7 * * MON-FRI", True, "latest")
    times = [parse_datetime(text) for text in shown["next_times"]]
    assert len(times) == 5 and times == sorted(times) and times[0] > clock.now()
    assert {(due.hour, due.minute) for due in times} <= {(5, 30), (6, 30)}
    assert client.get(shown["url"]).json()["name"] == "Bars"
    assert [row["id"] for row in client.get(URL).json()["results"]] == [shown["id"]]


@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ({"crontab": "0 0 30 2 *"}, "crontab", "bad_crontab"),
        ({"time_zone": "Mars"}, "time_zone", "unknown_time_zone"),
        ({"every_seconds": 600}, "crontab", "one_rhythm"),
        ({"crontab": "", "every_seconds": 5}, "every_seconds", "min_value"),
        ({"kind": "none"}, "kind", "unknown_kind"),
        ({"input": {"trade": "bar"}}, "input.place", "required"),
        ({"every": 5}, "every", "unknown_field"),
    ],
)
def test_what_is_wrong_is_a_400_with_its_field(client, wrong, field, code):
    response = client.post(URL, {**NEW, **wrong}, format="json")
    assert response.status_code == 400
    assert [(row["field"], row["code"]) for row in response.json()["errors"]] == [(field, code)]
    assert not Schedule.objects.exists()


def test_a_name_is_taken_within_its_subscriber_only(client):
    made(client)
    made(client, subscriber="acme")
    response = client.post(URL, NEW, format="json")
    assert (response.status_code, response.json()["errors"][0]["code"]) == (400, "taken")


def test_only_what_is_given_is_changed(client):
    shown = made(client)
    response = client.patch(shown["url"], {"crontab": "", "every_seconds": 600}, format="json")
    assert (response.status_code, response.json()["every_seconds"], response.json()["name"]) == (200, 600, "Bars")
    response = client.patch(shown["url"], {"every_seconds": None}, format="json")
    assert (response.status_code, response.json()["errors"][0]["code"]) == (400, "one_rhythm")


def test_paused_resumed_and_run_now(client):
    shown = made(client)
    assert client.post(f"{shown['url']}pause/").json()["is_enabled"] is False
    task = client.post(f"{shown['url']}run-now/", {"reason": "to see"}, format="json")
    assert (task.status_code, task.json()["kind"]) == (202, "map_search")
    assert client.post(f"{shown['url']}resume/").json()["is_enabled"] is True
    (run,) = client.get(f"{shown['url']}runs/").json()["results"]
    assert (run["task"], run["is_by_hand"]) == (task.json()["id"], True)


def test_run_now_is_repeatable_by_its_key(client):
    shown = made(client)
    answers = [client.post(f"{shown['url']}run-now/", HTTP_IDEMPOTENCY_KEY="k") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert Task.objects.count() == ScheduleRun.objects.count() == 1


def test_deleted_its_slots_go_and_its_tasks_stay(client):
    shown = made(client)
    client.post(f"{shown['url']}run-now/")
    assert client.delete(shown["url"]).status_code == 204
    assert not Schedule.objects.exists() and not ScheduleRun.objects.exists() and Task.objects.count() == 1


def test_a_bound_key_sees_and_makes_only_its_own(client, acme):
    other, own = made(client, subscriber="umbrella"), made(acme)
    assert own["subscriber"] == "acme"
    assert [row["id"] for row in acme.get(URL).json()["results"]] == [own["id"]]
    for call in (acme.get, acme.patch, acme.delete):
        assert call(other["url"], {}, format="json").status_code == 404
    for verb in ("pause", "resume", "run-now"):
        assert acme.post(f"{other['url']}{verb}/").status_code == 404
    assert acme.get(f"{other['url']}runs/").status_code == 404
    assert acme.post(URL, {**NEW, "subscriber": "umbrella"}, format="json").status_code == 403
    assert not Task.objects.exists() and Schedule.objects.count() == 2


def test_a_key_that_only_reads_changes_nothing(client, client_with):
    shown, reader = made(client), client_with("tasks:read")
    assert reader.get(shown["url"]).status_code == 200
    assert reader.post(URL, NEW, format="json").status_code == 403
    assert reader.post(f"{shown['url']}run-now/").status_code == 403
    assert reader.delete(shown["url"]).status_code == 403


def test_a_list_costs_the_same_whatever_its_length(client, django_assert_max_num_queries):
    for number in range(5):
        made(client, name=f"Bars {number}", starts_at=(clock.now() + timedelta(days=number)).isoformat())
    with django_assert_max_num_queries(12):
        assert len(client.get(URL).json()["results"]) == 5
