"""A configured provider, a job of it in flight, and calls signed by the Standard Webhooks library."""

import json
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone
from standardwebhooks import Webhook

from tasks.models import ExternalJob, Task
from tasks.states import JobState, State
from tasks.submit import submit

SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"
SEARCH = {"trade": "bakery", "place": "Łódź"}


@pytest.fixture(autouse=True)
def provider(settings):
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.SANDBOX_PROVIDER_KEY = "key"
    settings.SANDBOX_WEBHOOK_SECRET = SECRET
    settings.CELERY_BROKER_URL = ""


@pytest.fixture
def running(db) -> Callable[..., Task]:
    """A task whose job `job_id` is at the provider."""

    def make(job_id: str = "j1", *, subscriber: str = "", state: JobState = JobState.SUBMITTED) -> Task:
        task = submit("map_search", SEARCH, caller="test", subscriber=subscriber, correlation_id=uuid.uuid4().hex)
        now = timezone.now()
        Task.objects.filter(pk=task.pk).update(
            state=State.RUNNING, attempt_count=1, started_at=now, deadline_at=now + timedelta(hours=1)
        )
        ExternalJob.objects.create(
            task=task, provider="sandbox", attempt=1, job_id=job_id, state=state, submitted_at=now, next_poll_at=now
        )
        task.refresh_from_db()
        return task

    return make


Post = Callable[..., object]


@pytest.fixture
def post(db) -> Post:
    """POST a signed payload; any part of the signature can be replaced."""
    client = Client(enforce_csrf_checks=True)

    def send(
        payload: object,
        *,
        path: str = "/webhooks/map-search/sandbox/",
        event_id: str | None = None,
        at: datetime | None = None,
        secret: str = SECRET,
        sent: bytes | None = None,
        **headers: str | None,
    ):
        body = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        event_id, at = event_id or f"msg_{uuid.uuid4().hex}", at or timezone.now()
        signed = {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(secret).sign(event_id, at, body.decode("utf-8", "replace")),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        kept = {name: value for name, value in signed.items() if value is not None}
        return client.post(path, body if sent is None else sent, content_type="application/json", headers=kept)

    return send
