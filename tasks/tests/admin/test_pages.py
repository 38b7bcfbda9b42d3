"""The admin's pages: who sees what, verbs with permission and reason, and no query per row."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from delivery.tests import wire
from tasks import kinds
from tasks.models import ExternalJob, KeptAnswer, KindPolicy, Schedule, ScheduleRun, Task
from tasks.states import JobState, State
from tasks.submit import submit_batch
from tasks.tests.api.test_verbs import buried

SEARCH = {"trade": "bakery", "place": "Łódź <b>&amp;"}


@pytest.fixture(autouse=True)
def provider(settings):
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.CELERY_BROKER_URL = ""


@pytest.fixture
def batch(db):
    return submit_batch(
        "map_search", [{"input": SEARCH, "reference": f"r{n}"} for n in range(3)], caller="t", subscriber="acme"
    )


def visitor(*permissions: str) -> Client:
    user = User.objects.create_user(f"op{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def page(name: str, *args: object) -> str:
    return reverse(f"admin:{name}", args=args)


VIEW = ("view_task", "view_batch", "view_externaljob", "view_transition", "view_kindpolicy", "view_schedule")


def test_every_page_opens(batch):
    client = visitor(*VIEW)
    task = buried(batch.tasks.first())
    job = ExternalJob.objects.create(task=task, provider="sandbox", attempt=1, job_id="j1")
    schedule = Schedule.objects.create(
        name="s", kind="map_search", input=SEARCH, every_seconds=60, starts_at=timezone.now()
    )
    run = ScheduleRun.objects.create(schedule=schedule, due_at=timezone.now(), task=task)
    policy = kinds.policy_for("map_search")
    pages = [
        page("tasks_task_changelist"),
        page("tasks_task_change", task.pk),
        page("tasks_batch_changelist"),
        page("tasks_batch_change", batch.pk),
        page("tasks_externaljob_changelist"),
        page("tasks_externaljob_change", job.pk),
        page("tasks_transition_changelist"),
        page("tasks_transition_change", task.transitions.first().pk),
        page("tasks_kindpolicy_changelist"),
        page("tasks_kindpolicy_change", policy.pk),
        page("tasks_schedule_changelist"),
        page("tasks_schedule_change", schedule.pk),
        page("tasks_schedulerun_changelist"),
        page("tasks_schedulerun_change", run.pk),
    ]
    for address in pages:
        assert client.get(address).status_code == 200, address
    for address in ("tasks_task_add", "tasks_batch_add", "tasks_transition_add", "tasks_externaljob_add"):
        assert visitor(*VIEW, "add_task", "add_batch").get(page(address)).status_code == 403


def test_lists_take_as_many_queries_for_twenty_rows_as_for_three(batch):
    client = visitor(*VIEW)
    names = ("tasks_task_changelist", "tasks_batch_changelist", "tasks_transition_changelist")

    def statements(name):
        client.get(page(name))
        seen = []
        for _ in range(3):  # the sidebar counts anew every few seconds
            with wire.counted() as sent:
                client.get(page(name))
            seen.append(sent.statements)
        return min(seen)

    few = {name: statements(name) for name in names}
    for number in range(20):
        submit_batch("map_search", [{"input": SEARCH}], caller="t", subscriber=f"s{number}")
    assert {name: statements(name) for name in names} == few
    assert max(few.values()) <= 12


@pytest.mark.parametrize("term", ["r1", "acme", "j1", "{pk}", "{batch}", "{correlation}"])
def test_search_is_exact(batch, term):
    task = batch.tasks.get(reference="r1")
    ExternalJob.objects.create(task=task, provider="sandbox", attempt=1, job_id="j1")
    words = term.format(pk=task.pk, batch=batch.pk, correlation=batch.correlation_id)
    client = visitor(*VIEW)
    shown = client.get(page("tasks_task_changelist"), {"q": words}).content.decode()
    assert page("tasks_task_change", task.pk) in shown
    assert (
        page("tasks_task_change", task.pk) not in client.get(page("tasks_task_changelist"), {"q": "r"}).content.decode()
    )


def test_payloads_only_with_the_permission_and_escaped(batch):
    address = page("tasks_task_change", batch.tasks.first().pk)
    without = visitor(*VIEW).get(address).content.decode()
    assert "Łódź" not in without
    assert "You need the permission" in without
    shown = visitor(*VIEW, "view_payload_task").get(address).content.decode()
    assert "Łódź &lt;b&gt;&amp;amp;" in shown


def test_a_verb_needs_its_permission_even_without_the_button(batch):
    task = buried(batch.tasks.first())
    address = page("tasks_task_change", task.pk).replace("change", "redrive")
    client = visitor(*VIEW)
    assert "/redrive/" not in client.get(page("tasks_task_change", task.pk)).content.decode()
    assert client.get(address).status_code == client.post(address, {"reason": "x"}).status_code == 403
    assert Task.objects.get(pk=task.pk).state == State.DEAD_LETTER


def test_redrive_asks_first_wants_a_reason_and_keeps_it(batch):
    task = buried(batch.tasks.first())
    client = visitor(*VIEW, "redrive_task")
    address = page("tasks_task_change", task.pk).replace("change", "redrive")
    assert "/redrive/" in client.get(page("tasks_task_change", task.pk)).content.decode()
    assert client.get(address).status_code == 200
    assert client.post(address, {"confirmed": "yes"}).status_code == 200
    assert Task.objects.get(pk=task.pk).state == State.DEAD_LETTER
    assert client.post(address, {"confirmed": "yes", "reason": "healed"}).status_code == 302
    step = task.transitions.order_by("-id").first()
    assert (step.to_state, step.cause, step.detail) == ("queued", "operator", "healed")
    assert step.actor.startswith("user:")
    assert "healed" in LogEntry.objects.get().change_message


def test_a_selection_is_counted_confirmed_and_redriven(batch):
    ids = list(batch.tasks.order_by("pk").values_list("pk", flat=True))
    for pk in ids[:2]:
        buried(Task.objects.get(pk=pk))
    client = visitor(*VIEW, "redrive_task")
    asked = {"action": "redrive_selected", "_selected_action": ids, "select_across": "0"}
    question = client.post(page("tasks_task_changelist"), asked)
    assert question.status_code == 200
    assert "2 tasks." in question.content.decode()
    assert Task.objects.filter(state=State.DEAD_LETTER).count() == 2
    client.post(page("tasks_task_changelist"), {**asked, "confirmed": "yes", "reason": "healed"})
    assert Task.objects.filter(state=State.QUEUED).count() == 3
    assert LogEntry.objects.count() == 2


def test_a_selection_without_the_permission_does_nothing(batch):
    task = buried(batch.tasks.first())
    asked = {"action": "redrive_selected", "_selected_action": [task.pk], "confirmed": "yes", "reason": "x"}
    visitor(*VIEW).post(page("tasks_task_changelist"), asked)
    assert Task.objects.get(pk=task.pk).state == State.DEAD_LETTER


def test_a_batch_is_cancelled_and_leads_to_its_live_page(batch):
    client = visitor(*VIEW, "cancel_batch")
    shown = client.get(page("tasks_batch_change", batch.pk)).content.decode()
    assert f"/batches/{batch.pk}/" in shown
    address = page("tasks_batch_change", batch.pk).replace("change", "cancel")
    assert visitor(*VIEW).post(address, {"reason": "x"}).status_code == 403
    client.post(address, {"confirmed": "yes", "reason": "wrong file"})
    batch.refresh_from_db()
    assert (batch.state, batch.counts) == ("completed", {"cancelled": 3})


def test_a_policy_is_changed_without_touching_the_switch_that_another_has_pressed(batch):
    policy = kinds.policy_for("map_search")
    client = visitor(*VIEW, "change_kindpolicy", "pause_kind")
    form = {
        "provider": "",
        "concurrency": 7,
        "rate_per_minute": "",
        "attempt_limit": 3,
        "timeout_seconds": 3600,
        "batch_size": 50,
    }
    pause = page("tasks_kindpolicy_change", policy.pk).replace("change", "pause")
    client.post(pause, {"confirmed": "yes", "reason": "provider's window"})
    assert client.post(page("tasks_kindpolicy_change", policy.pk), form).status_code == 302
    policy = KindPolicy.objects.get(pk=policy.pk)
    assert (policy.concurrency, policy.is_paused) == (7, True)
    client.post(pause.replace("pause", "resume"), {"confirmed": "yes", "reason": "over"})
    assert KindPolicy.objects.get(pk=policy.pk).is_paused is False
    assert client.post(page("tasks_kindpolicy_change", policy.pk), {**form, "concurrency": 0}).status_code == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate_per_minute", 0), ("attempt_limit", 101), ("timeout_seconds", 2_592_001), ("batch_size", 10_001)],
)
def test_a_policy_says_which_figure_is_beyond_its_bounds(db, name, value):
    policy = kinds.policy_for("map_search")
    form = {"provider": "", "concurrency": 7, "rate_per_minute": "", "attempt_limit": 3, "timeout_seconds": 60,
            "batch_size": 50}  # fmt: skip
    answer = visitor(*VIEW, "change_kindpolicy").post(page("tasks_kindpolicy_change", policy.pk), {**form, name: value})
    assert "Ensure this value is " in answer.content.decode()
    assert KindPolicy.objects.get(pk=policy.pk).concurrency == 500


def test_a_schedule_with_a_wrong_input_is_refused(db):
    client = visitor(*VIEW, "add_schedule")
    form = {
        "name": "nightly",
        "kind": "map_search",
        "input": '{"trade": "bakery"}',
        "every_seconds": 60,
        "starts_at_0": "2026-01-01",
        "starts_at_1": "00:00:00",
        "catch_up": "latest",
        "is_enabled": "on",
    }
    refused = client.post(page("tasks_schedule_add"), form)
    assert "place: This field is required." in refused.content.decode()
    client.post(page("tasks_schedule_add"), {**form, "input": '{"trade": "bakery", "place": "Oslo"}'})
    assert Schedule.objects.get().input == {"trade": "bakery", "place": "Oslo", "limit": 10}


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": '{"trade": "a\\ud800", "place": "b"}'},
        {"input": '{"trade": "a\\u0000", "place": "b"}'},
        {"input": "[" * 5_000},
        {"input": '{"trade": NaN, "place": "b"}'},
        {"name": "a\x00b"},
        {"every_seconds": "99999999999"},
        {"starts_at_0": "99999-01-01"},
        {"subscriber": "s" * 101},
    ],
)
def test_a_schedule_that_could_not_be_stored_is_refused_on_its_page(db, wrong):
    client = visitor(*VIEW, "add_schedule")
    form = {
        "name": "nightly",
        "kind": "map_search",
        "input": '{"trade": "bakery", "place": "Oslo"}',
        "every_seconds": 60,
        "starts_at_0": "2026-01-01",
        "starts_at_1": "00:00:00",
        "catch_up": "latest",
    }
    answer = client.post(page("tasks_schedule_add"), {**form, **wrong})
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("lookup", ["input__icontains=bakery", "input__trade=bakery", "result__icontains=a"])
def test_inputs_and_results_cannot_be_guessed_by_filtering(batch, lookup):
    client = visitor("view_task")
    assert client.get(f"{reverse('admin:tasks_task_changelist')}?{lookup}").status_code == 400
    linked = f"batch__id__exact={batch.pk}&state__exact=queued&kind=map_search"
    assert client.get(f"{reverse('admin:tasks_task_changelist')}?{linked}").status_code == 200


def test_a_long_result_shows_its_beginning_and_where_the_whole_is(make_task):
    task = make_task(State.SUCCEEDED, result={"text": "<b>" + "y" * 200_000 + "THE END"})
    shown = visitor("view_task", "view_payload_task").get(page("tasks_task_change", task.pk)).content.decode()
    assert "&lt;b&gt;yyy" in shown and "THE END" not in shown and len(shown) < 200_000
    assert f"The beginning of {task.result_bytes:,} bytes" in shown and f"/api/v1/tasks/{task.pk}/result" in shown


def test_what_a_provider_sent_is_shown_to_those_who_may_see_payloads(make_task):
    task = make_task(State.DEAD_LETTER, job=JobState.SUCCEEDED, job_id="j", error_code="result_unreadable")
    KeptAnswer.objects.create(job=task.jobs.get(), body=b"caf\xe9\x00<script>", body_bytes=13, note="Not UTF-8.")
    shown = visitor("view_task", "view_payload_task").get(page("tasks_task_change", task.pk)).content.decode()
    assert "caf\\xe9\\x00&lt;script&gt;" in shown and "Not UTF-8. 13 bytes came." in shown
    assert f"/api/v1/tasks/{task.pk}/kept-answer" in shown
    hidden = visitor("view_task").get(page("tasks_task_change", task.pk)).content.decode()
    assert "caf" not in hidden and "What the provider sent" not in hidden
