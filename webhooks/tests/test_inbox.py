"""Parked events, the sweep, replay, and what the API shows of it all."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone
from rest_framework.test import APIClient

from kernel.auth import create_key
from kernel.models import AuditEntry
from tasks.models import ExternalJob
from tasks.states import JobState, State
from webhooks import inbox, retention
from webhooks.models import InboundEvent, InboundVerdict

DONE = {"job_id": "j1", "status": "completed"}


@pytest.fixture
def starting(running):
    """A task whose start call has not answered yet: its job has no id."""
    return running("", state=JobState.SUBMITTING)


def answer_start(job_id: str = "j1") -> None:
    ExternalJob.objects.update(job_id=job_id, state=JobState.SUBMITTED)


def test_an_early_event_is_parked_and_matched_by_the_sweep(post, starting):
    response = post(DONE)
    assert response.json() == {
        "status": "accepted",
        "reason": "parked",
        "results": [{"job_id": "j1", "status": "accepted", "reason": "parked"}],
    }
    inbox.sweep(timezone.now())
    assert InboundEvent.objects.get().reason == "parked"
    answer_start()
    inbox.sweep(timezone.now())
    starting.refresh_from_db()
    event = InboundEvent.objects.get()
    assert starting.state == State.FETCHING
    assert (event.outcome, event.reason, event.parked_until) == ("accepted", "", None)
    assert event.correlation_id == starting.correlation_id


def test_a_parked_event_that_nobody_starts_is_not_found_in_the_end(post, starting):
    post(DONE)
    inbox.sweep(timezone.now() + timedelta(minutes=9))
    assert InboundEvent.objects.get().reason == "parked"
    inbox.sweep(timezone.now() + timedelta(minutes=11))
    event = InboundEvent.objects.get()
    assert (event.outcome, event.reason, event.parked_until) == ("ignored", "task_not_found", None)
    assert event.results == [{"job_id": "j1", "status": "ignored", "reason": "task_not_found"}]


def test_a_parked_event_is_given_up_at_once_when_no_start_is_open_any_more(post, starting):
    post(DONE)
    answer_start("another")
    inbox.sweep(timezone.now())
    assert InboundEvent.objects.get().reason == "task_not_found"


def test_a_start_that_commits_while_the_event_is_looked_up_loses_nothing(post, starting, monkeypatch):
    """The jobs are looked up, then the start commits its ids, then no start is open any more."""
    from tasks.external import updates

    real = updates._stranger

    def slow(provider):
        answer_start()
        return real(provider)

    monkeypatch.setattr(updates, "_stranger", slow)
    assert post(DONE).json()["status"] == "accepted"
    starting.refresh_from_db()
    assert starting.state == State.FETCHING


def test_in_a_parked_batch_only_the_parked_jobs_are_applied_again(post, running, starting):
    running("known")
    jobs = [{"job_id": "known", "status": "completed"}, DONE]
    assert [row.get("reason") for row in post({"jobs": jobs}).json()["results"]] == [None, "parked"]
    answered = ExternalJob.objects.filter(job_id="")
    answered.update(job_id="j1", state=JobState.SUBMITTED)
    inbox.sweep(timezone.now())
    assert [(row["status"], row.get("reason")) for row in InboundEvent.objects.get().results] == [
        ("accepted", None)
    ] * 2


def test_the_sweep_judges_what_a_crash_left_but_not_what_is_under_way(post, running):
    task = running()
    post(DONE)
    InboundEvent.objects.update(outcome="", reason="", results=[], judged_at=None)
    assert inbox.sweep(timezone.now()) == 0
    assert inbox.sweep(timezone.now() + timedelta(seconds=11)) == 1
    assert InboundEvent.objects.get().outcome == "ignored"  # the first run had applied it already
    task.refresh_from_db()
    assert task.state == State.FETCHING


def test_the_sweep_survives_a_provider_that_has_left(post, starting, settings):
    post(DONE)
    settings.SANDBOX_PROVIDER_URL = ""
    inbox.sweep(timezone.now())
    assert InboundEvent.objects.get().reason == "unknown_source"


def test_a_replay_goes_by_the_stored_verdict_and_has_no_second_effect(post, running):
    task = running()
    post(DONE)
    InboundEvent.objects.update(received_at=timezone.now() - timedelta(days=3))
    event, results = inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="test")
    assert [row["reason"] for row in results] == ["duplicate_completed"]
    assert (event.outcome, event.reason) == ("accepted", "")
    assert task.transitions.count() == 2


def test_who_replayed_an_event_and_why_is_in_the_audit_trail_and_a_refused_replay_is_not(post):
    post(DONE)
    event = InboundEvent.objects.get()
    inbox.replay(event.pk, actor="op", reason="once more")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.verb, entry.subject, entry.reason) == ("op", "replay", "inbound_event", "once more")
    InboundEvent.objects.update(verdict=InboundVerdict.REFUSED)
    with pytest.raises(inbox.CannotReplay):
        inbox.replay(event.pk, actor="op", reason="")
    assert AuditEntry.objects.count() == 1


def test_a_replay_can_mend_an_ignored_event(post, running):
    post(DONE)
    assert InboundEvent.objects.get().reason == "task_not_found"
    running()
    event, _ = inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="the task was restored")
    assert (event.outcome, event.reason) == ("accepted", "")


def test_a_refused_event_is_never_replayed(post):
    post(DONE, webhook_signature="v1,AAAA")
    with pytest.raises(inbox.CannotReplay):
        inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="")


def test_an_unparseable_event_is_replayed_when_the_adapter_has_learnt(post, running, monkeypatch):
    task = running()
    with monkeypatch.context() as patched:
        patched.setattr("tasks.providers.sandbox.payloads.parse", _broken)
        assert post(DONE).status_code == 400
    assert InboundEvent.objects.get().verdict == InboundVerdict.UNPARSEABLE
    event, _ = inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="adapter mended")
    assert (event.verdict, event.outcome) == (InboundVerdict.VERIFIED, "accepted")
    task.refresh_from_db()
    assert task.state == State.FETCHING


def test_a_replay_that_cannot_be_read_either_says_so(post, monkeypatch):
    post(b'{"nothing": 1}')
    event, results = inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="")
    assert (event.verdict, results) == (InboundVerdict.UNPARSEABLE, [])


def _broken(*_args):
    raise KeyError("status")


def test_retention_takes_the_oldest_only(post, settings):
    for number in range(3):
        post({"job_id": f"j{number}", "status": "completed"})
    oldest = InboundEvent.objects.order_by("id").first()
    InboundEvent.objects.filter(pk=oldest.pk).update(received_at=timezone.now() - timedelta(days=31))
    assert retention.prune(timezone.now()) == 1
    assert not InboundEvent.objects.filter(pk=oldest.pk).exists()
    assert retention.prune(timezone.now()) == 0


# --- API --------------------------------------------------------------------------------------------------------


def caller(*scopes: str, subscriber: str = "") -> APIClient:
    _, token = create_key("test", list(scopes), subscriber=subscriber)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_the_list_and_its_filters(post, running, django_assert_num_queries):
    task = running()
    post(DONE)
    post(DONE)
    post({"job_id": "stranger", "status": "completed"})
    client = caller("tasks:read")
    client.get("/api/v1/inbound-events/")
    with django_assert_num_queries(2):
        rows = client.get("/api/v1/inbound-events/").json()["results"]
    assert [row["reason"] for row in rows] == ["task_not_found", "duplicate_completed", ""]
    assert rows[2]["results"] == [{"job_id": "j1", "status": "accepted", "task": str(task.pk)}]
    assert "body" not in rows[0]
    for query, count in (
        ("job_id=j1", 2),
        ("reason=task_not_found", 1),
        ("outcome=accepted", 1),
        ("verdict=refused", 0),
    ):
        assert len(client.get(f"/api/v1/inbound-events?{query}").json()["results"]) == count


def test_the_detail_shows_the_body_as_text_or_base64(post, running):
    running()
    post(DONE)
    client = caller("tasks:read")
    shown = client.get(f"/api/v1/inbound-events/{InboundEvent.objects.get().pk}/").json()
    assert (json.loads(shown["body"]), shown["body_base64"]) == (DONE, None)
    InboundEvent.objects.update(body=b"\xff\xfe")
    shown = client.get(f"/api/v1/inbound-events/{InboundEvent.objects.get().pk}/").json()
    assert (shown["body"], shown["body_base64"]) == (None, "//4=")


def test_a_bound_key_sees_its_jobs_only_and_no_body(post, running):
    mine, theirs = running("mine", subscriber="acme"), running("theirs", subscriber="umbrella")
    post({"jobs": [{"job_id": "mine", "status": "completed"}, {"job_id": "theirs", "status": "completed"}]})
    post({"job_id": "theirs", "status": "completed"})
    client = caller("tasks:read", "tasks:write", subscriber="acme")
    rows = client.get("/api/v1/inbound-events/").json()["results"]
    assert [[result["task"] for result in row["results"]] for row in rows] == [[str(mine.pk)]]
    shown = client.get(f"/api/v1/inbound-events/{rows[0]['id']}/").json()
    assert (shown["body"], shown["body_base64"], shown["headers"], shown["remote_addr"]) == (None, None, None, None)
    foreign = InboundEvent.objects.order_by("-id").first()
    assert client.get(f"/api/v1/inbound-events/{foreign.pk}/").status_code == 404
    assert client.post(f"/api/v1/inbound-events/{foreign.pk}/replay/", {}, format="json").status_code == 404
    assert str(theirs.pk) not in json.dumps(
        client.post(f"/api/v1/inbound-events/{rows[0]['id']}/replay/", {}, format="json").json()["results"]
    )


def test_replay_needs_the_writing_scope_and_answers_what_it_did(post, running):
    running()
    post(DONE)
    pk = InboundEvent.objects.get().pk
    path = f"/api/v1/inbound-events/{pk}/replay/"
    assert caller("tasks:read").post(path, {}, format="json").status_code == 403
    answer = caller("tasks:write", "tasks:read").post(path, {"reason": "again"}, format="json")
    assert answer.status_code == 200
    assert answer.json()["event"]["outcome"] == "accepted"
    assert [row["reason"] for row in answer.json()["results"]] == ["duplicate_completed"]
    post(DONE, webhook_signature="v1,AAAA")
    refused = InboundEvent.objects.order_by("-id").first()
    answer = caller("tasks:write").post(f"/api/v1/inbound-events/{refused.pk}/replay/", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "cannot_replay")


def test_a_bound_key_cannot_ask_after_jobs_that_are_not_its_own(post, running):
    running("mine", subscriber="acme"), running("theirs", subscriber="umbrella")
    post({"jobs": [{"job_id": "mine", "status": "completed"}, {"job_id": "theirs", "status": "completed"}]})
    for subscriber, seen in (("acme", {"mine": 1, "theirs": 0}), ("", {"mine": 1, "theirs": 1})):
        client = caller("tasks:read", subscriber=subscriber)
        found = {job: client.get(f"/api/v1/inbound-events/?job_id={job}").json()["results"] for job in seen}
        assert {job: len(rows) for job, rows in found.items()} == seen


def test_a_console_user_needs_the_inboxs_own_permissions(post, running, django_user_model):
    running()
    post(DONE)
    user = django_user_model.objects.create(username="ann", is_staff=True)
    client = APIClient()
    path = f"/api/v1/inbound-events/{InboundEvent.objects.get().pk}/replay/"

    def answers(*permissions):
        user.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
        client.force_login(user)
        return client.get("/api/v1/inbound-events/").status_code, client.post(path, {}, format="json").status_code

    assert answers("view_task", "add_task") == (403, 403)
    assert answers("view_inboundevent") == (200, 403)
    assert answers("replay_inboundevent") == (200, 200)
