"""Tasks, the batches they belong to, and the log of every transition."""

from typing import Any

from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt, UpdatedAt
from kernel.database.windows import Lead
from kernel.json_fields import ShownJSONField, TextBytes
from tasks.states import BATCH_OUTCOMES, FINAL_STATES, OPEN_STATES, Cause, KeyHeld, Priority, State

TO_START = ["queued", "retrying"]
# While a task holds its unique key nobody else of its kind and subscriber can have it.
HOLDS_KEY = (
    Q(state__in=OPEN_STATES) | Q(unique_while=KeyHeld.EVER) | Q(state="succeeded", unique_while=KeyHeld.SUCCEEDED)
)


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
    then = models.JSONField(null=True, blank=True, help_text="What follows once it is completed.")
    follow_up = models.ForeignKey(
        "tasks.FollowUp", null=True, blank=True, on_delete=models.SET_NULL, related_name="batches", db_index=False
    )

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "batches"
        permissions = [("cancel_batch", "Can cancel a batch")]
        indexes = [
            models.Index(fields=["subscriber", "-id"], name="batch_subscriber"),
            models.Index(fields=["kind", "-id"], name="batch_kind"),
            models.Index(fields=["reference", "-id"], name="batch_named", condition=~Q(reference="")),
            models.Index(fields=["follow_up"], name="batch_follow_up", condition=Q(follow_up__isnull=False)),
            models.Index(fields=["completed_at"], name="batch_completed", condition=Q(is_completed=True)),
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
    priority = models.PositiveSmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)
    progress = models.PositiveSmallIntegerField(default=0, help_text="0 to 100.")
    progress_note = models.CharField(max_length=200, blank=True, help_text="What the run says it is at.")
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
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Not started after it: then it is cancelled.")
    unique_key = models.CharField(max_length=200, blank=True, help_text="No other of its kind and subscriber has it.")
    unique_while = models.CharField(
        max_length=10, choices=KeyHeld.choices, default=KeyHeld.OPEN, help_text="How long it holds its unique key."
    )
    deadline_at = models.DateTimeField(
        null=True, blank=True, help_text="Until then the provider may take; while fetching: it keeps the result."
    )
    fetch_account = models.CharField(max_length=60, blank=True, editable=False, help_text="Where its result lies.")
    fetch_job = models.CharField(
        max_length=200, blank=True, editable=False, help_text="The job whose results many tasks share."
    )
    lease_token = models.UUIDField(null=True, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True, editable=False)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    then = models.JSONField(null=True, blank=True, help_text="What follows; of a task without a batch.")
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
            models.CheckConstraint(condition=Q(priority__in=Priority.values), name="task_priority_known"),
            models.UniqueConstraint(
                fields=["kind", "subscriber", "unique_key"],
                condition=~Q(unique_key="") & HOLDS_KEY,
                name="task_unique_key",
            ),
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
            # The same by urgency, and by whose they are where a subscriber has a share of its own (`engine.due`).
            models.Index(
                fields=["kind", "priority", "next_attempt_at"], name="task_claim", condition=Q(state__in=TO_START)
            ),
            models.Index(
                fields=["kind", "subscriber", "priority", "next_attempt_at"],
                name="task_claim_subscriber",
                condition=Q(state__in=TO_START),
            ),
            models.Index(fields=["next_attempt_at"], name="task_scheduled", condition=Q(state="scheduled")),
            models.Index(
                fields=["expires_at"],
                name="task_expiry",
                condition=Q(expires_at__isnull=False, state__in=["scheduled", *TO_START]),
            ),
            models.Index(fields=["leased_until"], name="task_leased", condition=Q(leased_until__isnull=False)),
            models.Index(fields=["kind", "id"], name="task_running", condition=Q(state__in=["running", "fetching"])),
            # The fetches of an account: what its provider forgets first comes first.
            models.Index(
                fields=["fetch_account", "fetch_job", "deadline_at", "next_attempt_at"],
                name="task_fetching",
                condition=Q(state="fetching"),
            ),
            models.Index(
                fields=["next_attempt_at"],
                name="task_to_stop",
                condition=Q(state="running", cancel_requested_at__isnull=False),
            ),
            models.Index(fields=["batch", "state"], name="task_batch_state"),
            models.Index(fields=["subscriber", "-id"], name="task_subscriber"),
            models.Index(fields=["state", "-id"], name="task_state"),
            models.Index(fields=["kind", "-id"], name="task_kind"),
            models.Index(fields=["reference", "-id"], name="task_named", condition=~Q(reference="")),
            # Retention's: those that belong to no batch, by their end.
            models.Index(
                fields=["state", "finished_at"],
                name="task_ended",
                condition=Q(batch__isnull=True, finished_at__isnull=False),
            ),
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
