"""Alerts of accounts whose webhooks stay away."""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.alerts.silence import silent_webhooks
from console.tests.conftest import make_batch
from tasks.models import ExternalJob, ProviderAccount, Task
from tasks.providers.sandbox import SandboxProvider

pytestmark = pytest.mark.django_db


def test_webhooks_that_stay_away_are_told_of_their_account_alone():
    make_batch(["succeeded"] * 10, finished_by="poll", completed=True)
    make_batch(["succeeded"] * 10, finished_by="webhook", completed=True)
    ExternalJob.objects.filter(finished_by="webhook").update(last_webhook_at=timezone.now(), provider="other")
    (found,) = silent_webhooks(timezone.now())
    account = ExternalJob.objects.filter(finished_by="poll").first().provider
    assert (found.subject, found.value) == (account, 100)
    assert found.title == f"The poll finished 100 % of the last hour's jobs at {account}"
    ExternalJob.objects.update(finished_by="webhook", last_webhook_at=timezone.now())
    assert silent_webhooks(timezone.now()) == []


def test_jobs_beyond_half_of_their_time_without_a_word_are_told():
    now = timezone.now()
    make_batch(["running"] * 10)
    ExternalJob.objects.all().delete()
    since = {"state": "submitted", "submitted_at": now - timedelta(minutes=20)}
    ExternalJob.objects.bulk_create(
        ExternalJob(task=task, provider="sandbox", attempt=1, job_id=f"j{task.pk}", **since)
        for task in Task.objects.all()
    )
    Task.objects.update(deadline_at=now + timedelta(minutes=30))
    assert silent_webhooks(now) == []
    assert [found.title.partition(" ")[2] for found in silent_webhooks(now + timedelta(minutes=6))] == [
        "has sent nothing for an hour, and jobs run there"
    ]
    ExternalJob.objects.filter(pk=ExternalJob.objects.first().pk).update(last_webhook_at=now)
    assert silent_webhooks(now + timedelta(minutes=6)) == []


def test_an_account_that_never_calls_back_is_not_silent(monkeypatch):
    make_batch(["succeeded"] * 10, finished_by="poll", completed=True)
    ExternalJob.objects.update(provider="quiet")
    ProviderAccount.objects.create(name="quiet", adapter="sandbox", api_key="k")
    monkeypatch.setattr(SandboxProvider, "calls_back", False)
    assert silent_webhooks(timezone.now()) == []
