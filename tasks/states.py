"""The words of the task side, each list once: states, causes, reasons. Documents and OpenAPI are made from these."""

from django.db import models


class State(models.TextChoices):
    """States of a task."""

    SCHEDULED = "scheduled", "scheduled"
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    FETCHING = "fetching", "fetching result"
    RETRYING = "retrying", "waiting to retry"
    SUCCEEDED = "succeeded", "succeeded"
    DEAD_LETTER = "dead_letter", "dead letter"
    CANCELLED = "cancelled", "cancelled"


FINAL_STATES = (State.SUCCEEDED.value, State.DEAD_LETTER.value, State.CANCELLED.value)
OPEN_STATES = tuple(state for state in State.values if state not in FINAL_STATES)


class JobState(models.TextChoices):
    """States of an external job."""

    SUBMITTING = "submitting", "being submitted"
    SUBMITTED = "submitted", "at the provider"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"
    LOST = "lost", "lost"


class Cause(models.TextChoices):
    """What made a transition happen."""

    API = "api", "API call"
    WORKER = "worker", "worker"
    WEBHOOK = "webhook", "provider's webhook"
    POLL = "poll", "poll"
    OPERATOR = "operator", "operator"
    SCHEDULE = "schedule", "schedule"


class JobStatus(models.TextChoices):
    """A provider's status in our words; `unknown` for a word that its adapter does not know."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"
    UNKNOWN = "unknown", "unknown"


class Reason(models.TextChoices):
    """Why a provider's word changed nothing, or not yet. Stored, answered and counted."""

    DUPLICATE_EVENT = "duplicate_event", "this event has been handled before"
    UNKNOWN_EVENT = "unknown_event", "an event type that this source does not know"
    UNKNOWN_STATUS = "unknown_status", "a status that this provider's adapter does not know"
    PARKED = "parked", "waits for the start call to return the job id"
    TASK_NOT_FOUND = "task_not_found", "no task has this job"
    SUPERSEDED_JOB = "superseded_job", "a newer job carries the task out"
    DUPLICATE_COMPLETED = "duplicate_completed", "completed before"
    ALREADY_COMPLETED = "already_completed", "the task is finished"
    INVALID_TRANSITION = "invalid_transition", "would move the task backwards"
    UNREADABLE_ENTRY = "unreadable_entry", "this entry of the payload cannot be read"


BATCH_OUTCOMES = ("all_succeeded", "partly", "none")
