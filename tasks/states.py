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


class Priority(models.IntegerChoices):
    """Which of the due tasks of a kind starts first. `AGES_SECONDS` says when a lesser one has waited long enough."""

    HIGH = 0, "high"
    NORMAL = 1, "normal"
    LOW = 2, "low"


# So much later than a high one a task counts as due: no flood of more urgent ones keeps it waiting for longer.
AGES_SECONDS = {Priority.HIGH: 0, Priority.NORMAL: 600, Priority.LOW: 3600}


class KeyHeld(models.TextChoices):
    """How long a task holds its unique key."""

    OPEN = "open", "until it has ended"
    SUCCEEDED = "succeeded", "until it has ended without success"
    EVER = "ever", "for as long as its row is kept"


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
    FOLLOW_UP = "follow_up", "follow-up"


class FollowUpState(models.TextChoices):
    """States of a follow-up: what is to be made once a batch or a single task has ended."""

    WAITING = "waiting", "about to be made"
    MADE = "made", "made"
    EMPTY = "empty", "nothing to make"
    UNMET = "unmet", "not everything succeeded"
    REFUSED = "refused", "could not be made"


class When(models.TextChoices):
    """When a follow-up is made."""

    SUCCEEDED = "succeeded", "once every task has succeeded"
    COMPLETED = "completed", "once every task has ended, from those that succeeded"


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
    UNKNOWN_REFERENCE = "unknown_reference", "it names a start that this account never made"
    REFERENCE_USED = "reference_used", "the start that it names has another job already"
    UNREADABLE_ENTRY = "unreadable_entry", "this entry of the payload cannot be read"


class Waiting(models.TextChoices):
    """Why a task that is not finished does not run at this moment."""

    SCHEDULED = "scheduled", "its time has not come"
    RETRY_AT = "retry_at", "its next attempt comes later"
    EXPIRED = "expired", "its expiry has passed"
    KIND_GONE = "kind_gone", "no installed app brings its kind"
    KIND_PAUSED = "kind_paused", "its kind is paused"
    NO_ACCOUNT = "no_account", "no provider account does its kind"
    ACCOUNT_RETIRED = "account_retired", "its account is retired"
    ACCOUNT_PAUSED = "account_paused", "its account is paused"
    ACCOUNT_HELD = "account_held", "its account is held"
    NO_WORKER = "no_worker", "no worker is running"
    LIMIT_FULL = "limit_full", "as many of its kind run as may"
    RATE = "rate", "as many of its kind were started as may be in a minute"
    SUBSCRIBER_FULL = "subscriber_full", "as many of its subscriber run as may"
    SUBSCRIBER_RATE = "subscriber_rate", "as many of its subscriber were started as may be in a minute"
    NEXT = "next", "nothing keeps it back"


BATCH_OUTCOMES = ("all_succeeded", "partly", "none")


class AccountState(models.TextChoices):
    """Of an account at a provider; the gravest counts."""

    ACTIVE = "active", "in use"
    PAUSED = "paused", "paused"
    HELD = "held", "held"
    RETIRED = "retired", "retired"
    GONE = "gone", "cannot be used"
