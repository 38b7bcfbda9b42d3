"""All that happened to one task, oldest first: transitions, external jobs, events told, and their deliveries.

Reads only, in four queries, and of a very long story its latest part. What came in by webhook shows as the transitions
it caused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F

from delivery.models import Delivery, Event
from tasks.engine.announcements import uids_of
from tasks.models import ExternalJob, Task, Transition
from tasks.states import JobState

STEPS_SHOWN = 1_000  # transitions, and as many jobs: the latest; a redrive allows any number of them
DELIVERIES_SHOWN = 200


@dataclass(frozen=True)
class Entry:
    """One thing that happened. `text` is for people; `fields` for programs."""

    at: datetime
    type: str  # transition, external_job, event or delivery
    text: str
    fields: dict[str, Any] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        return {"at": self.at, "type": self.type, "text": self.text, **self.fields}


def entries(task: Task) -> list[Entry]:
    """The task's story in order of time; what happened at one moment keeps the order it was written in."""
    found = [*_transitions(task), *_jobs(task), *_told(task)]
    return sorted(found, key=lambda entry: entry.at)


def _transitions(task: Task) -> Iterator[Entry]:
    for step in reversed(Transition.objects.filter(task=task).order_by("-id")[:STEPS_SHOWN]):
        yield Entry(
            step.at,
            "transition",
            _step_words(step),
            {
                "from_state": step.from_state,
                "to_state": step.to_state,
                "cause": step.cause,
                "reason": step.reason,
                "detail": step.detail,
                "actor": step.actor,
                "attempt": step.attempt,
            },
        )


def _step_words(step: Transition) -> str:
    reason = f": {step.reason.replace('_', ' ')}" if step.reason else ""
    if step.from_state == step.to_state:
        return f"Stayed {step.get_to_state_display()} ({step.get_cause_display()}{reason})"
    return f"Became {step.get_to_state_display()} ({step.get_cause_display()}{reason})"


def _jobs(task: Task) -> Iterator[Entry]:
    kept = {
        "kept_bytes": F("kept_answer__body_bytes"),
        "kept_at": F("kept_answer__received_at"),
        "kept_note": F("kept_answer__note"),
    }
    job: Any  # with what is annotated
    for job in reversed(ExternalJob.objects.filter(task=task).annotate(**kept).order_by("-id")[:STEPS_SHOWN]):
        known = {"provider": job.provider, "job_id": job.job_id, "attempt": job.attempt}
        status = {"state": job.state, "provider_status": job.provider_status}
        started = job.submitted_at or job.created_at
        words = f"Start call to {job.provider}" + (f": job {job.job_id}" if job.job_id else ", not answered yet")
        yield Entry(started, "external_job", words, {**known, "state": _state_at_start(job)})
        if job.finished_at:
            yield Entry(job.finished_at, "external_job", _end_words(job), {**known, **status, "detail": job.error_text})
        if job.kept_bytes is not None:
            words = f"What {job.provider} sent as its result is kept: {job.kept_bytes:,} bytes"
            yield Entry(job.kept_at, "external_job", words, {**known, **status, "detail": job.kept_note})


def _state_at_start(job: ExternalJob) -> str:
    return JobState.SUBMITTED.value if job.submitted_at else JobState.SUBMITTING.value


def _end_words(job: ExternalJob) -> str:
    noticed = f", noticed by {job.finished_by}" if job.finished_by else ""
    return f"Job {job.job_id or '(never answered)'} at {job.provider} {job.get_state_display()}{noticed}"


def _told(task: Task) -> Iterator[Entry]:
    events = {event.pk: event for event in Event.objects.filter(uid__in=uids_of(task)).defer("payload")}
    for event in events.values():
        told = f"to {event.delivery_count} endpoints" if event.delivery_count else "no endpoint wants it"
        yield Entry(
            event.created_at, "event", f"Event {event.type}: {told}", {"event": event.uid, "event_type": event.type}
        )
    if not events:
        return
    rows = Delivery.objects.filter(event__in=events).select_related("endpoint").order_by("id")
    for delivery in rows[:DELIVERIES_SHOWN]:
        yield _delivery(delivery, events[delivery.event_id])


def _delivery(delivery: Delivery, event: Event) -> Entry:
    where = f"{delivery.endpoint.name or 'endpoint'} #{delivery.endpoint_id} ({delivery.endpoint.host})"
    words = f"Delivery of {event.type} to {where}: {delivery.get_state_display()}"
    return Entry(
        delivery.finished_at or delivery.created_at,
        "delivery",
        words,
        {
            "event": event.uid,
            "event_type": event.type,
            "delivery": str(delivery.pk),
            "endpoint": str(delivery.endpoint_id),
            "state": delivery.state,
            "attempt": delivery.attempt_count,
            "last_outcome": delivery.last_outcome,
        },
    )
