"""A callback whose URL names one of our starts: counted only after its signature, and kept for sweep and replay."""

import uuid

import pytest
from django.utils import timezone

from tasks.engine import clock
from tasks.external import starting as starts
from tasks.models import ExternalJob, ProviderAccount
from tasks.providers import calling
from tasks.providers.sandbox import SandboxProvider
from tasks.states import JobState, State
from tasks.submit import submit
from tasks.tests import drive
from tasks.tests.conftest import sandbox, sandbox_process  # noqa: F401 - fixtures
from webhooks import inbox, verifying
from webhooks.models import InboundEvent

DONE = {"job_id": "j1", "status": "completed"}
HOME = "/webhooks/map-search/sandbox/"


@pytest.fixture
def starting(running):
    """A task whose start call has not been answered."""
    return running("", state=JobState.SUBMITTING, subscriber="acme")


def named(reference: object) -> str:
    return f"{HOME}?ref={reference}"


def test_a_callback_that_names_the_start_gives_it_its_job_at_once(post, starting):
    token = starting.jobs.get().start_token
    assert post(DONE, path=named(token)).json()["results"] == [{"job_id": "j1", "status": "accepted"}]
    starting.refresh_from_db()
    job = starting.jobs.get()
    assert (starting.state, job.job_id, job.state) == (State.FETCHING, "j1", JobState.SUCCEEDED)
    event = InboundEvent.objects.get()
    assert (event.reference, event.correlation_id) == (str(token), starting.correlation_id)
    assert event.subscribers == ["acme"]


def test_a_reference_is_no_proof(post, starting):
    token = starting.jobs.get().start_token
    assert post(DONE, path=named(token), webhook_signature="v1,AAAA").status_code == 401
    assert starting.jobs.get().job_id == "" and not starting.transitions.filter(reason="adopted").exists()


def test_sweep_and_replay_have_it_too(post, starting):
    token = starting.jobs.get().start_token
    post(DONE)  # without it
    assert InboundEvent.objects.get().reason == "parked"
    InboundEvent.objects.update(reference=str(token))
    inbox.sweep(timezone.now())
    starting.refresh_from_db()
    assert (starting.state, starting.jobs.get().job_id) == (State.FETCHING, "j1")
    _, results = inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="test")
    assert [row["reason"] for row in results] == ["duplicate_completed"]


@pytest.mark.parametrize(
    "reference", ["x", "%F0%9F%92%A9", "1" * 3000, "..%2F..", "{}", "0e05102f-6744-4670-b78c-84816445b18e", "%ff%fe"]
)
def test_a_reference_that_is_none_of_ours_is_kept_apart_and_breaks_nothing(post, starting, reference):
    answer = post(DONE, path=named(reference))
    assert answer.status_code == 200
    assert answer.json()["reason"] in ("unknown_reference", "parked")  # of what is nothing, nothing is kept
    assert starting.jobs.get().job_id == ""


def test_another_accounts_start_is_kept_apart(post, running):
    ProviderAccount.objects.create(name="other", adapter="sandbox")
    task = running("", state=JobState.SUBMITTING)
    ExternalJob.objects.update(provider="other")
    token = task.jobs.get().start_token
    assert post(DONE, path=named(token)).json()["reason"] == "unknown_reference"
    assert task.jobs.get().job_id == ""


def test_a_second_job_for_a_start_is_kept_apart(post, starting):
    token = starting.jobs.get().start_token
    post(DONE, path=named(token))
    assert post({"job_id": "j2", "status": "completed"}, path=named(token)).json()["reason"] == "reference_used"
    assert starting.jobs.get().job_id == "j1"


def test_beside_many_jobs_the_urls_reference_says_nothing(post, starting):
    token = starting.jobs.get().start_token
    both = {"jobs": [DONE, {"job_id": "j2", "status": "completed"}]}
    assert [row["reason"] for row in post(both, path=named(token)).json()["results"]] == ["parked", "parked"]
    assert starting.jobs.get().job_id == ""


def test_a_known_job_is_judged_by_its_id_whatever_the_url_says(post, running):
    task = running("j1")
    assert post(DONE, path=named(uuid.uuid4())).json()["status"] == "accepted"
    task.refresh_from_db()
    assert task.state == State.FETCHING


def test_one_body_for_two_starts_is_two_events_where_no_id_tells_them_apart(post, starting, running, monkeypatch):
    """And a reference that is none of ours makes no event new."""
    monkeypatch.setattr(verifying, "verify", lambda *_: inbox.Verification(""))  # signed, but no id of the event
    other = running("", state=JobState.SUBMITTING)
    for task in (starting, other, starting):
        post(DONE, path=named(task.jobs.get().start_token))
    post(DONE, path=named(uuid.uuid4()))
    post(DONE)
    assert list(InboundEvent.objects.order_by("pk").values_list("duplicate_count", flat=True)) == [1, 0, 1]


@pytest.mark.django_db(transaction=True)
def test_a_start_that_was_obeyed_and_never_answered_goes_on_by_the_providers_own_callback(
    live_server,
    sandbox,  # noqa: F811
    settings,
    monkeypatch,
):
    """A real provider that cannot be asked, hangs on the start, and calls back when it is done."""
    settings.PUBLIC_BASE_URL = live_server.url
    for name, value in (("finds_references", False), ("carries_reference", True)):
        monkeypatch.setattr(SandboxProvider, name, value)
    sandbox.faults(start_timeout=1.0, hang_ms=3000)
    monkeypatch.setattr(calling, "CALL_SECONDS", 0.3)
    task = submit("scoring", {"business": {"name": "Bar"}}, caller="t")
    (start,) = starts.claim("scoring", 1, clock.now())
    starts.settle(start, starts.call(start), clock.now())
    drive.until_true(lambda: InboundEvent.objects.exclude(outcome="").exists())
    task.refresh_from_db()
    assert (task.state, task.attempt_count, sandbox.stats()["jobs"]) == (State.FETCHING, 1, 1)
    assert task.transitions.filter(reason="adopted", cause="webhook").count() == 1
