"""The app that brought a kind or an adapter is gone, and its rows are there: shown everywhere, crashed on nowhere."""

import io
import json
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.urls import reverse
from django.utils import timezone

from console.alerts import evaluate
from kernel.auth import create_key
from tasks import accounting, kinds, providers, schedules, workers
from tasks.engine import rescue
from tasks.external import reconcile
from tasks.models import Batch, ExternalJob, KindPolicy, ProviderAccount, Schedule, ScheduleRun, Task
from tasks.states import JobState, State
from tasks.tests import drive
from tasks.tests.conftest import make_batch, make_task, now  # noqa: F401

KIND = "juggling"


@pytest.fixture(params=["kind", "adapter", "account"])
def gone(request, db, settings, make_task, make_batch, monkeypatch):  # noqa: F811
    """Rows in every state, of which nobody knows the kind, the adapter or the account any more."""
    settings.SANDBOX_PROVIDER_URL, settings.CELERY_BROKER_URL = "", ""
    values = {"base_url": "https://jobs.example", "api_key": "k", "webhook_secret": "s"}
    accounting.create("ours", "sandbox", values, actor="t")
    kind = KIND if request.param == "kind" else "scoring"
    KindPolicy.objects.create(kind=kind, provider="ours")
    jobs = {State.RUNNING: JobState.SUBMITTED, State.FETCHING: JobState.SUCCEEDED, State.DEAD_LETTER: JobState.FAILED}
    for state in State:
        make_task(state, kind=kind, job=jobs.get(state), job_id=f"j-{state}")
    make_task(State.RUNNING, kind=kind, job=JobState.SUBMITTING)
    batch = make_batch(*(state for state in State if state not in jobs), kind=kind)
    Batch.objects.filter(pk=batch.pk).update(kind=kind)
    ExternalJob.objects.update(provider="ours")
    schedule = Schedule.objects.create(name="s", kind=kind, every_seconds=60, starts_at=timezone.now())
    ScheduleRun.objects.create(schedule=schedule, due_at=timezone.now())
    if request.param == "adapter":
        real = dict(providers.registry._adapters)
        monkeypatch.setattr(providers.registry, "_adapters", {k: v for k, v in real.items() if k != "sandbox"})
    if request.param == "account":
        ProviderAccount.objects.all().delete()
    return request.param


def test_every_list_and_every_page_opens(gone, admin_client):
    models = (Task, Batch, ExternalJob, KindPolicy, ProviderAccount, Schedule, ScheduleRun)
    addresses = [reverse(f"admin:tasks_{model._meta.model_name}_changelist") for model in models]
    addresses += [
        reverse(f"admin:tasks_{model._meta.model_name}_change", args=[pk])
        for model in models
        for pk in model.objects.values_list("pk", flat=True)
    ]
    addresses += [reverse(name) for name in ("start", "batches", "dead-letters")]
    addresses += [reverse("batch", args=[pk]) for pk in Batch.objects.values_list("pk", flat=True)]
    for address in addresses:
        assert admin_client.get(address).status_code == 200, address
    waiting = Task.objects.filter(state=State.QUEUED).first()
    shown = admin_client.get(reverse("admin:tasks_task_change", args=[waiting.pk])).content.decode()
    assert {"kind": "its app is gone", "adapter": "is gone", "account": "which there is not"}[gone] in shown


def test_the_api_shows_them_and_refuses_in_words(gone, client):
    _, token = create_key("k", ["tasks:read", "tasks:write", "accounts:write"])
    headers = {"authorization": f"Bearer {token}"}
    paths = ["tasks/?limit=200", "batches/", "kinds/", "provider-accounts/"]
    paths += [f"tasks/{pk}/{more}" for pk in Task.objects.values_list("pk", flat=True) for more in ("", "timeline/")]
    for path in paths:
        assert client.get(f"/api/v1/{path}", headers=headers).status_code == 200, path
    kind = Task.objects.first().kind
    asked = {"kind": kind, "input": {"business": {"name": "Bar"}}}
    said = client.post("/api/v1/tasks/", asked, "application/json", headers=headers)
    assert said.status_code == {"kind": 400, "adapter": 409, "account": 409}[gone]
    if gone == "kind":
        assert client.get("/api/v1/kinds/", headers=headers).json()["gone"] == [KIND]
        assert "is gone" in client.get(f"/api/v1/kinds/{KIND}/", headers=headers).json()["detail"]


def test_workers_sweeps_schedules_and_alerts_go_on(gone):
    moment = timezone.now()
    waiting = Task.objects.filter(state=State.QUEUED).count()
    for stream in [*workers.start_streams(), *workers.fetch_streams(), *workers.cancel_streams()]:
        stream.settle([(work, stream.call(work)) for work in stream.claim(10, moment)], moment)
        stream.next_due()
    drive.run_due()
    report = reconcile.reconcile(moment, force=True)
    assert set(report.unreachable) == {"ours"}
    rescue.expired_leases(moment)
    schedules.tick(moment)
    evaluate.evaluate(moment)
    workers.due_workers()
    assert Task.objects.filter(state=State.QUEUED).count() == waiting


def test_commands_show_them_and_a_person_can_still_hold_and_cancel(gone, admin_client):
    kind = Task.objects.first().kind
    out = io.StringIO()
    call_command("kinds", "list", "--json", stdout=out)
    shown = {row["kind"]: row for row in json.loads(out.getvalue())}[kind]
    assert shown["is_gone"] == (gone == "kind") and shown["words"]
    call_command("accounts", "list", stdout=io.StringIO())
    call_command("kinds", "pause", kind, stdout=io.StringIO())
    assert KindPolicy.objects.get(kind=kind).is_paused
    with pytest.raises(CommandError):
        call_command("kinds", "set", kind, "--account", "nobody", stdout=io.StringIO())
    task = Task.objects.filter(state=State.QUEUED).first()
    admin_client.post(reverse("admin:tasks_task_cancel_verb", args=[task.pk]), {"reason": "gone"})
    assert Task.objects.get(pk=task.pk).state == State.CANCELLED


def test_a_callback_of_a_running_job_still_finds_its_account(gone, client):
    kind = Task.objects.first().kind
    body = b'{"job_id": "j-running", "status": "completed"}'
    answer = client.post(f"/webhooks/{kind}/ours/", body, "application/json")
    assert answer.status_code in ({404} if gone != "kind" else {401, 503})


@pytest.mark.parametrize("gone", ["kind"], indirect=True)
def test_what_is_back_starts_again(gone, monkeypatch):
    monkeypatch.setattr(providers.adapter("sandbox"), "kinds", frozenset())  # it does whatever it is set to
    monkeypatch.setitem(kinds.KINDS, KIND, replace(kinds.get("scoring"), name=KIND))
    (stream,) = [one for one in workers.start_streams() if one.name.endswith(KIND)]
    assert stream.claim(10, timezone.now())
    assert not Task.objects.filter(kind=KIND, state=State.QUEUED).exists()
