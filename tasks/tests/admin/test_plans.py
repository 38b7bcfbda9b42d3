"""Schedules and follow-ups in the admin: what is shown, what is refused, and the verbs with their rights."""

import pytest
from django.utils import timezone

from tasks import kinds
from tasks.models import FollowUp, Schedule, Task
from tasks.submit import submit_batch
from tasks.tests.admin.test_pages import SEARCH, page, visitor
from tasks.tests.follow_ups.ending import succeed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_sandbox")]
FORM = {
    "name": "Bars",
    "kind": "map_search",
    "input": '{"trade": "bar", "place": "Oslo"}',
    "time_zone": "Europe/Warsaw",
    "starts_at_0": "2026-01-01",
    "starts_at_1": "00:00:00",
    "catch_up": "latest",
    "priority": "1",
}
SEES = ("view_schedule", "view_followup", "view_batch", "view_task")


def schedule() -> Schedule:
    return Schedule.objects.create(
        name="s", kind="map_search", input=SEARCH, crontab="30 7 * * *", starts_at=timezone.now()
    )


def test_a_crontab_expression_is_saved_and_its_next_times_shown():
    client = visitor(*SEES, "add_schedule", "change_schedule")
    client.post(page("tasks_schedule_add"), {**FORM, "crontab": "30 7 * * *"})
    row = Schedule.objects.get()
    assert (row.crontab, row.every_seconds, row.time_zone) == ("30 7 * * *", None, "Europe/Warsaw")
    shown = client.get(page("tasks_schedule_change", row.pk)).content.decode()
    assert shown.count(":30:00 UTC") >= 5
    assert "30 7 * * * (Europe/Warsaw)" in client.get(page("tasks_schedule_changelist")).content.decode()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"crontab": "0 0 30 2 *"}, "a day must be in its month"),
        ({"crontab": "0 9 * * *", "time_zone": "Mars"}, "no time zone"),
        ({"crontab": "0 9 * * *", "every_seconds": "60"}, "leave the other empty"),
        ({}, "Give either every_seconds or a crontab"),
    ],
)
def test_what_can_never_be_due_is_refused_on_its_page(wrong, words):
    answer = visitor(*SEES, "add_schedule").post(page("tasks_schedule_add"), {**FORM, **wrong})
    assert answer.status_code == 200 and words in answer.content.decode()
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("verb", ["pause", "run-now"])
def test_a_verb_needs_the_right_asks_and_does_it(verb):
    row = schedule()
    address = page("tasks_schedule_change", row.pk).replace("change", verb)
    assert visitor(*SEES).post(address, {"reason": "r"}).status_code == 403
    client = visitor(*SEES, "change_schedule")
    assert client.get(address).status_code == 200
    row.refresh_from_db()
    assert row.is_enabled and not Task.objects.exists()
    assert client.post(address, {"reason": "r"}).status_code == 302
    row.refresh_from_db()
    assert (row.is_enabled, Task.objects.count()) == ((False, 0) if verb == "pause" else (True, 1))


def test_the_pages_of_parent_and_child_name_each_other(settings):
    kinds.policy_for("map_search")
    then = [{"kind": "email_generation"}]
    parent = submit_batch("map_search", [{"input": SEARCH}], caller="me", then=then)
    succeed(*parent.tasks.values_list("pk", flat=True))
    row = FollowUp.objects.get()
    client = visitor(*SEES)
    child = row.batches.get()
    shown = client.get(page("tasks_batch_change", parent.pk)).content.decode()
    assert page("tasks_followup_change", row.pk) in shown and page("tasks_batch_change", child.pk) in shown
    assert f"a follow-up of batch {parent.pk}" in client.get(page("tasks_batch_change", child.pk)).content.decode()
    for name in (page("tasks_followup_changelist"), page("tasks_followup_change", row.pk)):
        assert page("tasks_batch_change", child.pk) in client.get(name).content.decode()


def test_a_refused_follow_up_is_redriven_by_whoever_has_the_right(settings):
    parent = submit_batch("map_search", [{"input": SEARCH}], caller="me", then=[{"kind": "email_generation"}])
    settings.SANDBOX_PROVIDER_URL = ""
    succeed(*parent.tasks.values_list("pk", flat=True))
    row = FollowUp.objects.get()
    address = page("tasks_followup_change", row.pk).replace("change", "redrive")
    assert visitor(*SEES).post(address, {"reason": "r"}).status_code == 403
    assert visitor(*SEES, "redrive_followup").post(address, {"reason": "r"}).status_code == 302
    row.refresh_from_db()
    assert row.state == "waiting"
