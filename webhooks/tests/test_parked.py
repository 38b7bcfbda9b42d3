"""Parked events among many others are matched once their job is named; a whole job's word is each of its items'."""

from typing import Any

import pytest
from django.utils import timezone

from tasks.models import ExternalJob, Task
from tasks.providers.base import ParsedCallback, ProviderUpdate
from tasks.providers.sandbox import SandboxProvider
from tasks.states import JobState, JobStatus, State
from webhooks import inbox
from webhooks.models import InboundEvent

pytestmark = pytest.mark.django_db
PARKED = 500


def test_five_hundred_parked_events_keep_no_newer_one_from_its_job(post: Any, running: Any) -> None:
    task = running("", state=JobState.SUBMITTING)
    running("", state=JobState.SUBMITTING)
    post({"job_id": "strange", "status": "completed"})
    first = InboundEvent.objects.get()
    copies = []
    for number in range(PARKED - 1):
        results = [{**first.results[0], "job_id": f"strange{number}"}]
        fields = {"results": results, "dedupe_key": f"id:{number}", "body": first.body, "headers": first.headers}
        same = {name: getattr(first, name) for name in ("source", "provider", "verdict", "outcome", "reason")}
        copies.append(InboundEvent(**same, **fields, parked_until=first.parked_until, judged_at=first.judged_at))
    InboundEvent.objects.bulk_create(copies)
    post({"job_id": "j1", "status": "completed"})
    ExternalJob.objects.filter(task=task).update(job_id="j1", state=JobState.SUBMITTED)
    inbox.sweep(timezone.now())
    task.refresh_from_db()
    assert task.state == State.FETCHING
    assert InboundEvent.objects.filter(parked_until__isnull=False).count() == PARKED


def test_what_is_said_of_a_job_as_a_whole_is_answered_for_each_of_its_items(
    post: Any, running: Any, monkeypatch: Any
) -> None:
    tasks = [running(f"x{number}") for number in range(3)]
    for number, task in enumerate(tasks):
        named = {"job_id": "shared", "item_key": f"i{number}", "provider_batch_id": "b1"}
        ExternalJob.objects.filter(task=task).update(**named)
    for said, batch in ((ProviderUpdate("shared", status=JobStatus.RUNNING, raw_status="processing", progress=5,
                                        means_all_items=True), ""),
                        (ProviderUpdate("", status=JobStatus.SUCCEEDED, raw_status="completed",
                                        means_all_items=True), "b1")):  # fmt: skip
        monkeypatch.setattr(SandboxProvider, "parse", lambda *_, s=said, b=batch: ParsedCallback((s,), batch_id=b))
        answer = post({"job_id": "shared", "status": said.raw_status}).json()
        assert [(result["job_id"], result["item_key"]) for result in answer["results"]] == [
            ("shared", "i0"), ("shared", "i1"), ("shared", "i2"),
        ]  # fmt: skip
        assert not any(result["status"] == "ignored" for result in answer["results"])
    assert set(Task.objects.values_list("state", "fetch_account")) == {(State.FETCHING, "sandbox")}


def test_what_is_said_of_a_job_nobody_has_is_parked_and_spread_when_its_start_has_answered(
    post: Any, running: Any, monkeypatch: Any
) -> None:
    tasks = [running("", state=JobState.SUBMITTING) for _ in range(2)]
    said = ProviderUpdate("shared", status=JobStatus.SUCCEEDED, raw_status="completed", means_all_items=True)
    monkeypatch.setattr(SandboxProvider, "parse", lambda *_: ParsedCallback((said,)))
    answer = post({"job_id": "shared", "status": "completed"}).json()
    assert [result["reason"] for result in answer["results"]] == ["parked"]
    for number, task in enumerate(tasks):
        ExternalJob.objects.filter(task=task).update(job_id="shared", item_key=f"i{number}", state=JobState.SUBMITTED)
    inbox.sweep(timezone.now())
    assert set(Task.objects.values_list("state", flat=True)) == {State.FETCHING}
