"""What the console's tests stand on: users, keys, and rows of every kind, made plainly."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from console.live import shared_reads
from console.models import Alert, Heartbeat, Operation, OperationItem
from console.pages import badges
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event
from kernel.auth import Scope, create_key
from kernel.models import ApiKey, AuditEntry
from tasks.models import Batch, ExternalJob, Task, Transition

COMMITTED = (
    OperationItem, Operation, Alert, AuditEntry, Heartbeat,
    Attempt, Delivery, Event, EndpointHealth, Endpoint,
    ExternalJob, Transition, Task, Batch,
    ApiKey, Session, get_user_model(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_remembered():
    """Caches of a quarter second and of five seconds must not carry one test's rows into the next."""
    shared_reads._recent.clear()
    badges._kept.clear()


@pytest.fixture
def committed(django_db_setup, django_db_blocker):
    """Rows that other threads see, for the socket; cleaned away by name, since a flush takes seconds."""
    with django_db_blocker.unblock():
        yield
        for model in COMMITTED:
            model.objects.all().delete()
        connection.close()


@pytest.fixture
def operator():
    return _user("operator", is_superuser=True)


@pytest.fixture
def staff():
    """Staff with no permission at all; `allow(user, "tasks.view_task")` gives one."""
    return _user("staff")


def _user(name, **values):
    """Logged in by `force_login` only: hashing a password takes a second."""
    user = get_user_model()(username=name, is_staff=True, **values)
    user.set_unusable_password()
    user.save()
    return user


def allow(user, *permissions):
    for name in permissions:
        app, codename = name.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return get_user_model().objects.get(pk=user.pk)


@pytest.fixture
def key():
    return create_key("test", list(Scope.values))[1]


@pytest.fixture
def bound_key():
    return create_key("bound", list(Scope.values), subscriber="acme")[1]


def make_batch(states, *, kind="map_search", subscriber="", finished_by="webhook", completed=False):
    """A batch with a task in each of `states`, its transitions, and a job for each that began."""
    now = timezone.now()
    counts = {state: states.count(state) for state in set(states)}
    batch = Batch.objects.create(
        kind=kind,
        subscriber=subscriber,
        correlation_id="c" * 32,
        total=len(states),
        counts=counts,
        is_completed=completed,
        outcome="all_succeeded" if completed else "",
        completed_at=now if completed else None,
    )
    for position, state in enumerate(states):
        is_final = state in {"succeeded", "dead_letter", "cancelled"}
        task = Task.objects.create(
            kind=kind,
            batch=batch,
            position=position,
            subscriber=subscriber,
            correlation_id="c" * 32,
            state=state,
            input={"query": "SECRET-INPUT"},
            result={"places": "SECRET-RESULT"} if state == "succeeded" else None,
            error_code="provider_failed" if state in {"dead_letter", "retrying"} else "",
            attempt_count=1,
            run_at=now,
            next_attempt_at=now,
            started_at=now - timedelta(seconds=2),
            finished_at=now if is_final else None,
        )
        Transition.of(task, to_state="queued", cause="api", reason="submitted").save()
        if state != "queued":
            cause = "poll" if finished_by == "poll" else "webhook"
            Transition.of(task, from_state="queued", to_state=state, cause=cause, attempt=1).save()
        if is_final:
            ExternalJob.objects.create(
                task=task,
                provider="sandbox",
                attempt=1,
                job_id=f"job-{task.pk}",
                state="succeeded",
                finished_by=finished_by,
                finished_at=now,
                last_webhook_at=now if finished_by == "webhook" else None,
            )
    return batch


def make_endpoint(name="partner", *, subscriber="", **health):
    endpoint = Endpoint.objects.create(
        name=name, subscriber=subscriber, url="https://partner.example/SECRET-PATH", host="partner.example"
    )
    EndpointHealth.objects.create(endpoint=endpoint, **health)
    return endpoint


def make_delivery(endpoint, state="pending", *, due=None, fingerprint="f1", **values):
    now = timezone.now()
    event = Event.objects.create(
        uid=f"evt_{Event.objects.count()}_{endpoint.pk}",
        type="lead.created",
        subscriber=endpoint.subscriber,
        payload=b'{"data": "SECRET-PAYLOAD"}',
        payload_sha256="0" * 64,
        correlation_id="d" * 32,
        delivery_count=1,
        occurred_at=now,
    )
    is_final = state in {"delivered", "dead_letter", "cancelled"}
    is_dead = state == "dead_letter"
    return Delivery.objects.create(
        event=event,
        endpoint=endpoint,
        state=state,
        next_attempt_at=due or now,
        finished_at=now if is_final else None,
        fingerprint=fingerprint if is_dead else "",
        last_outcome="server_error" if is_dead else "",
        last_status_code=500 if is_dead else None,
        attempt_count=5 if is_dead else 0,
        **values,
    )
