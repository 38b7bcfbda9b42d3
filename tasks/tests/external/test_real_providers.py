"""The loop at each provider that the sandbox emulates: accounts are rows, and a kind's options go with its jobs."""

from typing import Any

import pytest

from tasks import accounts
from tasks.engine import clock
from tasks.errors import NoProvider
from tasks.external import comparing, reconcile, updates
from tasks.models import ExternalJob, KeptAnswer, KindPolicy, ProviderAccount, Task
from tasks.states import Cause, JobState, State
from tasks.submit import submit
from tasks.tests import drive
from tasks.tests.conftest import KEY, SECRET, Sandbox

pytestmark = pytest.mark.django_db

SEARCH = {"trade": "piekarnia", "place": "Łódź", "country": "PL", "limit": 3}
SCORE = {"business": {"name": "Bar Mleczny", "place": "Łódź"}}


def set_up(url: str, adapter: str, path: str, kind: str, *, on_account: Any = None, **options: Any) -> ProviderAccount:
    """An account called `ours`, and the kind set to it."""
    account = ProviderAccount.objects.create(
        name="ours",
        adapter=adapter,
        base_url=url + path,
        api_key=KEY,
        webhook_secret=SECRET,
        options=on_account or {},
    )
    KindPolicy.objects.update_or_create(kind=kind, defaults={"provider": "ours", "options": options})
    return account


@pytest.mark.parametrize(
    ("adapter", "path", "kind", "given", "options"),
    [
        ("apify", "/apify", "map_search", SEARCH, {"actor": "compass/crawler-google-places"}),
        ("outscraper", "/outscraper", "map_search", SEARCH, {}),
        ("replicate", "/replicate", "scoring", SCORE, {"model": "meta/meta-llama-3-8b-instruct"}),
    ],
)
def test_a_task_goes_all_the_way(
    sandbox: Sandbox, adapter: str, path: str, kind: str, given: Any, options: dict[str, Any]
) -> None:
    set_up(sandbox.url, adapter, path, kind, **options)
    task = submit(kind, given, caller="t")
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert (task.state, task.error_text, task.attempt_count) == (State.SUCCEEDED, "", 1)
    assert task.result["score"] >= 0 if kind == "scoring" else len(task.result["places"]) == 3
    job = task.jobs.get()
    assert (job.provider, job.options, job.state) == ("ours", options, JobState.SUCCEEDED)


def test_a_service_of_ones_own_goes_all_the_way_by_its_status(sandbox: Sandbox) -> None:
    status = {"status_url": f"{sandbox.url}/workflow/jobs/{{job_id}}"}
    set_up(sandbox.url, "http", "/workflow/start", "scoring", on_account=status)
    task = submit("scoring", SCORE, caller="t")
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert task.state == State.SUCCEEDED and task.result["score"] >= 0


@pytest.fixture
def quiet(sandbox: Sandbox) -> Task:
    """At a service that names no job and cannot be asked: known by our reference, its callback is all that comes."""
    set_up(sandbox.url, "http", "/workflow/quiet", "scoring")
    task = submit("scoring", SCORE, caller="t")
    drive.start_due(1)
    return task


def called_back(task: Task, body: bytes) -> updates.Applied:
    provider = accounts.get("ours")
    assert provider is not None
    (update,) = provider.parse(body.replace(b"REF", str(task.jobs.get().start_token).encode()), {}).updates
    return updates.apply(update, provider="ours", cause=Cause.WEBHOOK)


DONE = b'{"reference": "REF", "status": "completed", "result": {"score": 71.5}}'


def test_a_callback_brings_the_result_and_nothing_is_left_of_it(quiet: Task) -> None:
    job = quiet.jobs.get()
    assert (job.state, job.job_id) == (JobState.SUBMITTED, str(job.start_token))
    assert called_back(quiet, DONE).status == "accepted"
    assert KeptAnswer.objects.get().job_id == job.pk
    assert called_back(quiet, DONE.replace(b"71.5", b"10")).reason == "duplicate_completed"
    drive.fetch_due(1)
    quiet.refresh_from_db()
    assert (quiet.state, quiet.result) == (State.SUCCEEDED, {"score": 71.5})
    assert KeptAnswer.objects.count() == 0


def test_a_result_that_was_brought_is_judged_like_any_other(quiet: Task) -> None:
    called_back(quiet, DONE.replace(b"71.5", b"710"))
    drive.fetch_due(1)
    quiet.refresh_from_db()
    assert (quiet.state, quiet.error_code) == (State.DEAD_LETTER, "result_rejected")
    assert b"710" in bytes(KeptAnswer.objects.get().body)


def test_a_service_that_cannot_be_asked_is_not_polled_and_its_jobs_are_not_lost(quiet: Task) -> None:
    for _ in range(comparing.MISSES + 1):
        report = reconcile.reconcile(clock.now(), force=True)
        assert (report.asked, report.not_found, report.lost, report.unreachable) == (0, 0, 0, {})
    quiet.refresh_from_db()
    assert quiet.state == State.RUNNING and ExternalJob.objects.get().poll_misses == 0


@pytest.mark.parametrize(
    ("adapter", "kind", "why"),
    [("apify", "map_search", "No actor is chosen"), ("replicate", "scoring", "No model is chosen")],
)
def test_work_without_its_options_is_refused_before_it_is_stored(
    adapter: str, kind: str, why: str, settings: Any
) -> None:
    set_up("https://example.com", adapter, "", kind)
    with pytest.raises(NoProvider, match=why) as caught:
        submit(kind, SEARCH if kind == "map_search" else SCORE, caller="t")
    assert "nothing was stored" in str(caught.value).lower() and Task.objects.count() == 0


def test_an_option_that_goes_missing_later_holds_the_account_and_fails_no_task(sandbox: Sandbox) -> None:
    account = set_up(sandbox.url, "apify", "/apify", "map_search", actor="compass/crawler-google-places")
    task = submit("map_search", SEARCH, caller="t")
    KindPolicy.objects.filter(kind="map_search").update(options={})
    drive.start_due(1)
    task.refresh_from_db()
    account.refresh_from_db()
    assert (task.state, task.attempt_count, task.jobs.count()) == (State.RETRYING, 0, 0)
    assert account.hold_reason == "provider_denied" and "No actor is chosen" in account.hold_text
