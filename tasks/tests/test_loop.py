"""The loop against the real sandbox: start, poll, fetch, cancel, and what goes wrong on the way."""

from datetime import timedelta
from typing import Any

import pytest

from delivery.models import Event
from tasks import providers
from tasks.engine import clock, lifecycle, rescue
from tasks.external import adoption, fetching, starting
from tasks.external.reconcile import reconcile, silence, time_out
from tasks.models import ExternalJob, KindPolicy, Task
from tasks.providers.sandbox import SandboxProvider
from tasks.states import JobState, State
from tasks.submit import submit, submit_batch
from tasks.tests import drive
from tasks.tests.conftest import KEY, SECRET, Sandbox, start_elsewhere

pytestmark = pytest.mark.django_db

SCORE = {"business": {"name": "Bar", "rating": 4.6, "reviews": 120}}


def scores(number: int) -> list[dict[str, Any]]:
    return [{"input": {"business": {"name": f"Bar {n}"}}, "reference": f"r{n}"} for n in range(number)]


def test_a_single_task_goes_all_the_way(sandbox: Sandbox) -> None:
    task = submit("scoring", SCORE, caller="t", reference="mine", correlation_id="journey-1")
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED and task.progress == 100 and task.attempt_count == 1
    assert 0 <= task.result["score"] <= 100 and task.result["passed"] is True
    assert drive.path(task) == [
        ("queued", "submitted"),
        ("running", "started"),
        ("fetching", "completed"),
        ("succeeded", "result_accepted"),
    ]
    event = Event.objects.get()
    assert (event.type, event.correlation_id) == ("task.succeeded", "journey-1")
    job = task.jobs.get()
    assert job.state == JobState.SUCCEEDED and job.finished_by == "poll" and job.next_poll_at is None


def test_a_batch_starts_in_few_calls_and_is_announced_once(sandbox: Sandbox) -> None:
    batch = submit_batch("scoring", scores(120), caller="t", subscriber="acme")
    drive.until(drive.all_final)
    batch.refresh_from_db()
    assert batch.counts == {"succeeded": 120} and batch.outcome == "all_succeeded" and batch.revision == 1
    assert sandbox.stats()["calls"]["start_batch"] == 3
    assert Event.objects.filter(type="task.succeeded", subscriber="acme").count() == 120
    assert Event.objects.filter(type="batch.completed", subscriber="acme").count() == 1
    seen = silence(clock.now())[0]
    assert seen.by_poll == seen.finished == 120


def test_through_faults_everything_succeeds_and_nothing_is_started_twice(sandbox: Sandbox) -> None:
    sandbox.faults(server_error=0.1, rate_limited=0.05, not_found_after_completion=0.3, not_found_ms=200, seed=7)
    batch = submit_batch("scoring", scores(60), caller="t")
    KindPolicy.objects.filter(kind="scoring").update(batch_size=5)
    drive.until(drive.all_final, seconds=60)
    batch.refresh_from_db()
    assert batch.counts == {"succeeded": 60}
    assert sandbox.stats()["repeated_references"]["count"] == 0
    assert sandbox.stats()["jobs"] == 60
    assert set(Task.objects.values_list("attempt_count", flat=True)) == {1}  # a 429 or 500 is not charged


def test_one_input_that_the_provider_rejects_does_not_sink_its_batch(sandbox: Sandbox) -> None:
    batch = submit_batch("scoring", scores(9), caller="t")
    bad = batch.tasks.get(position=4)
    Task.objects.filter(pk=bad.pk).update(input={"business": {"name": ""}})
    drive.until(drive.all_final)
    batch.refresh_from_db()
    assert batch.counts == {"succeeded": 8, "dead_letter": 1} and batch.outcome == "partly"
    bad.refresh_from_db()
    assert bad.error_code == "rejected_by_provider" and "business.name" in bad.error_text
    assert Event.objects.filter(type="task.dead_lettered").count() == 1


def test_failed_upstream_is_retried_as_often_as_the_policy_says_then_redriven(sandbox: Sandbox) -> None:
    sandbox.faults(fail=1.0)
    task = submit("scoring", SCORE, caller="t")
    for _ in range(3):
        drive.until(lambda: Task.objects.get().state not in (State.QUEUED, State.RUNNING))
        Task.objects.filter(state=State.RETRYING).update(next_attempt_at=clock.now(), state=State.RETRYING)
        drive.start_due(0.2)
    task.refresh_from_db()
    assert task.state == State.DEAD_LETTER and task.attempt_count == 3 and task.jobs.count() == 3
    sandbox.faults(fail=0)
    assert lifecycle.redrive([task.pk], actor="me", reason="healed") == {task.pk}
    drive.until(lambda: Task.objects.get().state == State.SUCCEEDED)
    assert list(Event.objects.order_by("id").values_list("type", flat=True)) == ["task.dead_lettered", "task.succeeded"]


def test_a_start_that_timed_out_after_it_started_is_adopted_and_not_doubled(sandbox: Sandbox, monkeypatch: Any) -> None:
    sandbox.faults(start_timeout=1.0, hang_ms=5000)
    batch = submit_batch("scoring", scores(3), caller="t")
    now = clock.now()
    (start,) = starting.claim("scoring", 1, now)
    hasty = SandboxProvider(sandbox.url, KEY, SECRET, call_seconds=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(providers, "get", lambda _name: hasty)
        outcomes = starting.call(start)
    starting.settle(start, outcomes, now)
    assert drive.states() == {"running": 3} and sandbox.stats()["jobs"] == 3
    assert set(ExternalJob.objects.values_list("state", flat=True)) == {JobState.SUBMITTING}
    numbers = adoption.adopt(now + timedelta(seconds=3))
    assert numbers == {"adopted": 3, "never_began": 0}
    drive.until(drive.all_final)
    batch.refresh_from_db()
    assert batch.counts == {"succeeded": 3}
    assert sandbox.stats()["jobs"] == 3
    assert ("running", "adopted") in drive.path(batch.tasks.get(position=0))


def test_a_worker_that_died_after_the_start_call_leaves_a_job_that_is_adopted(sandbox: Sandbox) -> None:
    task = submit("scoring", SCORE, caller="t")
    now = clock.now()
    (start,) = starting.claim("scoring", 1, now)
    starting.call(start)  # and dead, before it could settle
    assert adoption.adopt(now + timedelta(seconds=31)) == {"adopted": 1, "never_began": 0}
    Task.objects.update(next_attempt_at=now)  # back from the 31 s that we were ahead
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED and task.attempt_count == 1 and sandbox.stats()["jobs"] == 1


def test_a_worker_that_died_before_the_start_call_costs_no_attempt(sandbox: Sandbox) -> None:
    task = submit("scoring", SCORE, caller="t")
    now = clock.now()
    (start,) = starting.claim("scoring", 1, now)
    for seconds in (31, 42, 53):  # not found, but the lease is not over: nothing is concluded
        assert adoption.adopt(now + timedelta(seconds=seconds))["never_began"] == 0
    assert adoption.adopt(now + timedelta(seconds=91))["never_began"] == 1
    task.refresh_from_db()
    assert (task.state, task.attempt_count, task.rescue_count) == (State.RETRYING, 0, 1)
    starting.settle(start, starting.call(start), clock.now())  # the zombie wakes up and starts after all
    job = task.jobs.get()
    assert job.state == JobState.LOST and job.job_id  # known by name, so its webhooks are not strangers
    task.refresh_from_db()
    assert task.state == State.RETRYING
    Task.objects.update(next_attempt_at=clock.now())
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED and task.jobs.count() == 2 and task.rescue_count == 0


def test_five_starts_in_a_row_that_never_began_make_a_poison_dead_letter(sandbox: Sandbox) -> None:
    task = submit("scoring", SCORE, caller="t")
    now = clock.now()
    for _ in range(5):
        Task.objects.update(next_attempt_at=now)
        assert len(starting.claim("scoring", 1, now)) == 1
        ExternalJob.objects.filter(state="submitting").update(created_at=now)
        for seconds in (31, 60, 91):
            adoption.adopt(now + timedelta(seconds=seconds))
        now += timedelta(seconds=100)
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "poison")


def test_an_adopted_job_that_is_finished_already_goes_straight_on(sandbox: Sandbox, make_task: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    start_elsewhere(str(task.jobs.get().start_token))
    now = clock.now() + timedelta(seconds=5)
    drive.until(lambda: adoption.adopt(now)["adopted"] == 1 or Task.objects.get().state != State.RUNNING)
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED


def test_a_provider_that_is_down_holds_the_kind_and_charges_nothing(unreachable_sandbox: None) -> None:
    batch = submit_batch("scoring", scores(3), caller="t")
    (start,) = starting.claim("scoring", 1, clock.now())
    starting.settle(start, starting.call(start), clock.now())
    assert drive.states() == {"retrying": 3} and not ExternalJob.objects.exists()
    assert set(Task.objects.values_list("attempt_count", "error_code")) == {(0, "provider_unavailable")}
    policy = KindPolicy.objects.get(kind="scoring")
    assert policy.held_until and policy.hold_reason == "provider_unavailable"
    assert starting.claim("scoring", 1, clock.now()) == []
    batch.refresh_from_db()
    assert batch.counts == {"retrying": 3}


def test_a_provider_that_is_down_changes_nothing_in_the_poll(unreachable_sandbox: None, make_task: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="job_1")
    for minute in range(10):
        report = reconcile(clock.now() + timedelta(minutes=minute))
        assert report.unreachable == {"sandbox": "provider_unavailable"} and report.lost == 0
    task.refresh_from_db()
    assert task.state == State.RUNNING and task.jobs.get().poll_misses == 0


def test_a_wrong_key_buries_no_task(sandbox: Sandbox, settings: Any) -> None:
    settings.SANDBOX_PROVIDER_KEY = "wrong"
    submit("scoring", SCORE, caller="t")
    (start,) = starting.claim("scoring", 1, clock.now())
    starting.settle(start, starting.call(start), clock.now())
    assert Task.objects.get().state == State.RETRYING
    assert KindPolicy.objects.get(kind="scoring").hold_reason == "provider_denied"


def test_a_job_the_provider_does_not_know_for_three_polls_is_lost_and_done_again(
    sandbox: Sandbox, make_task: Any
) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="job_gone")
    now = clock.now()
    assert reconcile(now + timedelta(seconds=30)).lost == 0  # too young to judge
    lost = [reconcile(now + timedelta(minutes=minute, seconds=30)).lost for minute in (1, 2, 3)]
    assert lost == [0, 0, 1]
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RETRYING, "job_lost")
    assert task.jobs.get().state == JobState.LOST


def test_the_dry_run_says_what_it_would_do_and_does_nothing(sandbox: Sandbox) -> None:
    task = submit("scoring", SCORE, caller="t")
    drive.start_due(0.5)
    job = task.jobs.get()
    drive.until_true(lambda: _provider().status(job.job_id).raw_status == "completed")
    (row,) = reconcile(clock.now(), dry_run=True).differences
    assert row == {
        "task_id": str(task.pk),
        "job_id": job.job_id,
        "ours": "submitted",
        "theirs": "completed",
        "would": "fetch the result",
    }
    task.refresh_from_db()
    assert task.state == State.RUNNING and task.jobs.get().last_polled_at is None


def test_a_job_past_its_deadline_is_stopped_and_retried(sandbox: Sandbox) -> None:
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    task = submit("scoring", SCORE, caller="t")
    drive.start_due(0.5)
    assert time_out(clock.now()) == 0
    assert time_out(clock.now() + timedelta(seconds=3601)) == 1
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RETRYING, "timed_out")
    assert sandbox.stats()["calls"]["cancel"] == 1


def test_cancel_asks_the_provider_and_its_answer_decides(sandbox: Sandbox) -> None:
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    task = submit("scoring", SCORE, caller="t")
    drive.start_due(0.5)
    assert lifecycle.cancel([task.pk], actor="me", reason="changed my mind") == {task.pk: "cancelling"}
    drive.cancel_due()
    task.refresh_from_db()
    assert task.state == State.CANCELLED and task.jobs.get().state == JobState.CANCELLED
    assert list(Event.objects.values_list("type", flat=True)) == ["task.cancelled"]


def test_cancel_that_comes_too_late_lets_the_result_in(sandbox: Sandbox) -> None:
    task = submit("scoring", SCORE, caller="t")
    drive.start_due(0.5)
    job_id = task.jobs.get().job_id
    drive.until_true(lambda: _provider().status(job_id).raw_status == "completed")
    assert lifecycle.cancel([task.pk], actor="me", reason="late") == {task.pk: "cancelling"}
    drive.cancel_due()
    assert Task.objects.get().state == State.FETCHING
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED


def _provider() -> Any:
    return providers.get("sandbox")


def test_a_result_that_breaks_the_rules_is_rejected_and_the_work_done_again(sandbox: Sandbox, make_task: Any) -> None:
    task = make_task(State.FETCHING, kind="map_search", input={"trade": "a", "place": "b", "limit": 1})
    ExternalJob.objects.create(task=task, provider="sandbox", attempt=1, state=JobState.SUCCEEDED, job_id="j")
    (fetch,) = fetching.claim("map_search", 5, clock.now())
    fetching.settle([(fetch, fetching.Fetched({"places": [{"name": "x", "lat": 99, "lon": 0}]}))], clock.now())
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RETRYING, "result_rejected")
    assert task.result is None


def test_a_missing_result_is_waited_for_and_then_lost(sandbox: Sandbox, make_task: Any) -> None:
    task = make_task(State.FETCHING, job=JobState.SUCCEEDED, job_id="job_none")
    now = clock.now()
    (fetch,) = fetching.claim("scoring", 5, now)
    fetching.settle([(fetch, fetching.call(fetch))], now)
    task.refresh_from_db()
    assert task.state == State.FETCHING and task.error_code == "not_there" and task.next_attempt_at > now
    later = now + timedelta(seconds=200)
    (fetch,) = fetching.claim("scoring", 5, later)
    fetching.settle([(fetch, fetching.call(fetch))], later)
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RETRYING, "result_lost")
    assert task.jobs.get().state == JobState.LOST


def test_a_fetch_that_was_taken_over_writes_nothing(sandbox: Sandbox, make_task: Any) -> None:
    task = make_task(State.FETCHING, job=JobState.SUCCEEDED, job_id="j")
    now = clock.now()
    (zombie,) = fetching.claim("scoring", 5, now)
    assert fetching.claim("scoring", 5, now) == []
    later = now + timedelta(seconds=91)
    assert rescue.expired_leases(later) == 1
    (second,) = fetching.claim("scoring", 5, later)
    fetching.settle([(zombie, fetching.Fetched({"score": 1}))], later)
    assert Task.objects.get().state == State.FETCHING
    fetching.settle([(second, fetching.Fetched({"score": 2}))], later)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED and task.result == {"score": 2}
    assert drive.path(task)[0] == ("fetching", "rescued")


def test_unicode_places_come_back_near_where_they_are(sandbox: Sandbox) -> None:
    items = [{"input": {"trade": "カフェ", "place": "東京"}}, {"input": {"trade": "مخبز", "place": "القاهرة"}}]
    batch = submit_batch("map_search", items, caller="t")
    drive.until(drive.all_final)
    tokyo, cairo = batch.tasks.order_by("position")
    assert abs(tokyo.result["place"]["lat"] - 35.69) < 0.5 and cairo.result["place"]["country"] == "EG"
