"""Durable work: tasks, batches, the external jobs that carry them out, and the log of every transition.

State columns are written only by `tasks.engine.lifecycle`; nothing here decides anything.
"""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt, UpdatedAt
from kernel.database.windows import Lead
from kernel.json_fields import ShownJSONField, TextBytes
from tasks.states import (
    BATCH_OUTCOMES,
    FINAL_STATES,
    Cause,
    JobState,
    State,
)

MAX_BATCH = 10_000  # tasks of one batch
MAX_ATTEMPTS = 100  # of a task before it is a dead letter; a redrive grants as many again
MAX_CONCURRENCY = 100_000  # tasks of a kind at once
MAX_RATE_PER_MINUTE = 1_000_000
MAX_TIMEOUT_SECONDS = 30 * 86_400  # of one attempt
SMALL_MOST = 2**15 - 1  # what a count in a smallint can be


def _bounded(most: int) -> list[Any]:
    return [MinValueValidator(1), MaxValueValidator(most)]


class Batch(models.Model):
    """A group of tasks of one kind. `counts` always equals a recount of its tasks by state."""

    kind = models.CharField(max_length=60)
    subscriber = models.CharField(max_length=100, blank=True, help_text="Who is told about its end.")
    caller = models.CharField(max_length=80, blank=True, editable=False)
    reference = models.CharField(max_length=200, blank=True)
    correlation_id = models.CharField(max_length=64, db_index=True)
    total = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict, help_text="Number of tasks in each state that occurs.")
    revision = models.PositiveIntegerField(default=0, help_text="How many times it has been completed.")
    is_completed = models.BooleanField(default=False)
    outcome = models.CharField(max_length=20, blank=True, choices=[(word, word) for word in BATCH_OUTCOMES])
    created_at = CreatedAt()
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "batches"
        permissions = [("cancel_batch", "Can cancel a batch")]
        indexes = [
            models.Index(fields=["subscriber", "-id"], name="batch_subscriber"),
            models.Index(fields=["kind", "-id"], name="batch_kind"),
            models.Index(fields=["reference", "-id"], name="batch_named", condition=~Q(reference="")),
        ]

    leads = (Lead(("correlation_id",)), Lead(("reference",), bool), Lead(("kind",)), Lead(("subscriber",)))

    def __str__(self) -> str:
        return f"Batch {self.pk} ({self.kind})"

    @property
    def state(self) -> str:
        return "completed" if self.is_completed else "running"


class Task(models.Model):
    """One unit of work, wherever it runs. Its row is the truth; broker messages only wake workers up."""

    kind = models.CharField(max_length=60)
    batch = models.ForeignKey(Batch, null=True, blank=True, on_delete=models.PROTECT, related_name="tasks")
    position = models.PositiveIntegerField(default=0, help_text="Its place in the batch, from 0.")
    subscriber = models.CharField(max_length=100, blank=True, help_text="Who is told about its end.")
    caller = models.CharField(max_length=80, blank=True, editable=False)
    reference = models.CharField(max_length=200, blank=True, help_text="The caller's own name for it.")
    correlation_id = models.CharField(max_length=64, db_index=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    progress = models.PositiveSmallIntegerField(default=0, help_text="0 to 100.")
    input = ShownJSONField()
    result = ShownJSONField(null=True, blank=True)
    # Lists carry these instead of the bodies. By the database itself: they cannot part, whoever writes the row.
    input_bytes = models.GeneratedField(
        expression=TextBytes("input"), output_field=models.IntegerField(null=True), db_persist=True
    )
    result_bytes = models.GeneratedField(
        expression=TextBytes("result"), output_field=models.IntegerField(null=True), db_persist=True
    )
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    attempt_count = models.PositiveSmallIntegerField(default=0, help_text="External jobs or runs begun so far.")
    attempt_limit = models.PositiveSmallIntegerField(default=3)
    fetch_count = models.PositiveSmallIntegerField(default=0, help_text="Tries to fetch this attempt's result.")
    rescue_count = models.PositiveSmallIntegerField(default=0)
    redrive_count = models.PositiveSmallIntegerField(default=0)
    run_at = models.DateTimeField(help_text="Not before.")
    next_attempt_at = models.DateTimeField(help_text="When it is due next, in the states that wait.")
    deadline_at = models.DateTimeField(null=True, blank=True, help_text="Until then the provider may take.")
    lease_token = models.UUIDField(null=True, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True, editable=False)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    created_at = CreatedAt()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    updated_at = UpdatedAt()

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("view_payload_task", "Can see inputs and results"),
            ("redrive_task", "Can redrive a task"),
            ("cancel_task", "Can cancel or discard a task"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=State.values), name="task_state_known"),
            models.CheckConstraint(condition=Q(progress__lte=100), name="task_progress_percent"),
            models.CheckConstraint(
                condition=Q(state__in=FINAL_STATES, finished_at__isnull=False)
                | (~Q(state__in=FINAL_STATES) & Q(finished_at__isnull=True)),
                name="task_final_has_end",
            ),
        ]
        indexes = [
            # The claim's: due rows of a kind. Finished rows are not in it.
            models.Index(
                fields=["kind", "next_attempt_at"],
                name="task_due",
                condition=Q(state__in=["scheduled", "queued", "retrying", "fetching"]),
            ),
            models.Index(fields=["leased_until"], name="task_leased", condition=Q(leased_until__isnull=False)),
            models.Index(fields=["kind", "id"], name="task_running", condition=Q(state__in=["running", "fetching"])),
            models.Index(fields=["batch", "state"], name="task_batch_state"),
            models.Index(fields=["subscriber", "-id"], name="task_subscriber"),
            models.Index(fields=["state", "-id"], name="task_state"),
            models.Index(fields=["kind", "-id"], name="task_kind"),
            models.Index(fields=["reference", "-id"], name="task_named", condition=~Q(reference="")),
        ]

    leads = (
        Lead(("batch_id",)),
        Lead(("reference",), bool),
        Lead(("correlation_id",)),
        Lead(("state",)),
        Lead(("kind",)),
        Lead(("subscriber",)),
    )

    def __str__(self) -> str:
        return f"Task {self.pk} ({self.kind})"

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


class ExternalJob(models.Model):
    """The provider's run of a task. A task may have several, one after the other; only the newest counts.

    Several may carry one attempt: a start that came to nothing is not charged.
    """

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="jobs")
    provider = models.CharField(max_length=60)
    attempt = models.PositiveSmallIntegerField(help_text="The task's attempt that it carries out.")
    start_token = models.UUIDField(
        default=uuid.uuid4,
        unique=True,
        help_text="Handed to the provider as reference; finds an orphaned start.",
    )
    provider_batch_id = models.CharField(max_length=200, blank=True)
    job_id = models.CharField(
        max_length=200, blank=True, help_text="As the provider names it; empty until it answered."
    )
    item_key = models.CharField(max_length=200, blank=True, help_text="Which item, where many share one job id.")
    state = models.CharField(max_length=12, choices=JobState.choices, default=JobState.SUBMITTING)
    provider_status = models.CharField(max_length=60, blank=True, help_text="The last status, as the provider said it.")
    finished_by = models.CharField(max_length=12, blank=True, help_text="Who noticed the end: webhook or poll.")
    error_text = models.TextField(blank=True)
    created_at = CreatedAt()
    submitted_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    last_webhook_at = models.DateTimeField(null=True, blank=True)
    last_polled_at = models.DateTimeField(null=True, blank=True)
    next_poll_at = models.DateTimeField(null=True, blank=True, help_text="Set while the job is open.")
    poll_misses = models.PositiveSmallIntegerField(default=0, help_text="Polls in a row that did not find it.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "job_id", "item_key"], name="externaljob_one_row", condition=~Q(job_id="")
            ),
            models.UniqueConstraint(
                fields=["task"], name="externaljob_one_open", condition=Q(state__in=["submitting", "submitted"])
            ),
            models.CheckConstraint(condition=Q(state__in=JobState.values), name="externaljob_state_known"),
        ]
        indexes = [
            models.Index(
                fields=["provider", "next_poll_at"],
                name="externaljob_open",
                condition=Q(state__in=["submitting", "submitted"]),
            ),
            models.Index(fields=["provider_batch_id"], name="externaljob_batch", condition=~Q(provider_batch_id="")),
            models.Index(fields=["finished_at"], name="externaljob_finished", condition=Q(finished_at__isnull=False)),
        ]

    leads = (Lead(("task_id",)), Lead(("provider_batch_id",), bool))

    def __str__(self) -> str:
        return f"{self.provider} job {self.job_id or '(starting)'}"


class KeptAnswer(models.Model):
    """What a provider sent as a job's result, byte for byte, where it could not be used as it came.

    In a table of its own, so that no list of jobs can carry it.
    """

    job = models.OneToOneField(ExternalJob, on_delete=models.CASCADE, related_name="kept_answer")
    body = models.BinaryField()
    body_bytes = models.PositiveIntegerField(help_text="How many came.")
    is_cut = models.BooleanField(default=False, help_text="Whether more came than is kept.")
    note = models.TextField(blank=True, help_text="What was wrong with it.")
    received_at = UpdatedAt()

    def __str__(self) -> str:
        return f"{self.body_bytes:,} bytes of {self.job}"


class Transition(models.Model):
    """Append-only: one step of a task, why it happened and who caused it. `from_state` is empty for its creation.

    Made by `of`, which names the batch beside the task: a batch's newest steps are found without its tasks.
    """

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="transitions")
    # Its task's; empty too in rows of before it was kept. It goes with its task, so nothing has to be checked for it.
    batch = models.ForeignKey(
        Batch, null=True, blank=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    from_state = models.CharField(max_length=12, blank=True)
    to_state = models.CharField(max_length=12, choices=State.choices)
    cause = models.CharField(max_length=10, choices=Cause.choices)
    reason = models.CharField(max_length=60, blank=True, help_text="A reason word.")
    detail = models.TextField(blank=True)
    actor = models.CharField(max_length=100, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    at = CreatedAt()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["batch", "-id"], name="transition_batch", condition=Q(batch__isnull=False)),
        ]

    leads = (Lead(("task_id",)), Lead(("batch_id",)))

    def __str__(self) -> str:
        return f"{self.from_state or 'new'} → {self.to_state}"

    @classmethod
    def of(cls, task: Task, **values: Any) -> "Transition":
        """A step of this task, not stored yet."""
        return cls(task=task, batch_id=task.batch_id, **values)


class Schedule(models.Model):
    """A task submitted again and again, every so many seconds counted from `starts_at` (UTC)."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=60)
    input = ShownJSONField(default=dict, blank=True)
    subscriber = models.CharField(max_length=100, blank=True)
    every_seconds = models.PositiveIntegerField(help_text="At least 60.")
    starts_at = models.DateTimeField()
    catch_up = models.CharField(
        max_length=6,
        default="latest",
        choices=[
            ("all", "run every missed slot"),
            ("latest", "run the latest missed slot"),
            ("skip", "skip missed slots"),
        ],
    )
    is_enabled = models.BooleanField(default=True)
    last_due_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = CreatedAt()

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=Q(every_seconds__gte=60), name="schedule_every_minute_at_most")]

    def __str__(self) -> str:
        return self.name


class ScheduleRun(models.Model):
    """One slot of a schedule. Unique, so that two schedulers, or one that was stopped, neither double nor lose one."""

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="runs")
    due_at = models.DateTimeField()
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.SET_NULL)
    is_skipped = models.BooleanField(default=False)
    reason = models.CharField(max_length=200, blank=True, help_text="Why it made no task.")
    created_at = CreatedAt()

    class Meta:
        ordering = ["-due_at"]
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="schedulerun_once")]

    def __str__(self) -> str:
        return f"{self.schedule} at {self.due_at:%Y-%m-%d %H:%M}"


class KindPolicy(models.Model):
    """An operator's settings for a kind, read at every claim: editable while everything runs."""

    kind = models.CharField(max_length=60, unique=True)
    provider = models.CharField(max_length=60, blank=True, help_text="Where new work goes; empty for internal kinds.")
    is_paused = models.BooleanField(default=False, help_text="Holds its queued tasks; running ones go on.")
    concurrency = models.PositiveIntegerField(
        default=500, validators=_bounded(MAX_CONCURRENCY), help_text="Most tasks running at once."
    )
    rate_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=_bounded(MAX_RATE_PER_MINUTE),
        help_text="Most starts a minute; empty: no limit. To start none, pause the kind.",
    )
    attempt_limit = models.PositiveSmallIntegerField(default=3, validators=_bounded(MAX_ATTEMPTS))
    timeout_seconds = models.PositiveIntegerField(
        default=3600, validators=_bounded(MAX_TIMEOUT_SECONDS), help_text="How long one attempt may take."
    )
    batch_size = models.PositiveIntegerField(
        default=50, validators=_bounded(MAX_BATCH), help_text="Most tasks in one start call."
    )
    held_until = models.DateTimeField(null=True, blank=True, editable=False, help_text="No starts before, by itself.")
    hold_reason = models.CharField(max_length=60, blank=True, editable=False)
    hold_text = models.CharField(max_length=300, blank=True, editable=False)
    failure_count = models.PositiveSmallIntegerField(
        default=0, editable=False, help_text="Start calls in a row that the provider could not take."
    )
    tokens = models.FloatField(null=True, blank=True, editable=False, help_text="Of the rate limit's bucket.")
    tokens_at = models.DateTimeField(null=True, blank=True, editable=False)
    updated_at = UpdatedAt()

    class Meta:
        ordering = ["kind"]
        verbose_name_plural = "kind policies"
        permissions = [("pause_kind", "Can pause and resume a kind")]
        constraints = [
            models.CheckConstraint(
                condition=Q(concurrency__gte=1, attempt_limit__gte=1, batch_size__gte=1, timeout_seconds__gte=1),
                name="kindpolicy_at_least_one",
            ),
            models.CheckConstraint(  # zero would mean no limit, and more attempts overflow at a redrive
                condition=Q(rate_per_minute__isnull=True, attempt_limit__lte=MAX_ATTEMPTS)
                | Q(rate_per_minute__gte=1, attempt_limit__lte=MAX_ATTEMPTS),
                name="kindpolicy_says_what_it_means",
            ),
        ]

    def __str__(self) -> str:
        return self.kind

    def attempt_deadline(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self.timeout_seconds)
