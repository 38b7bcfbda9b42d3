"""The operator's own records: bulk operations, alerts, and the heartbeats of processes."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt
from kernel.database.windows import Lead


class Operation(models.Model):
    """A bulk verb as a tracked thing: a frozen filter, a preview, a rate, progress, and an outcome for each item."""

    class Verb(models.TextChoices):
        REDRIVE_DELIVERIES = "redrive_deliveries", "Redrive deliveries"
        DISCARD_DELIVERIES = "discard_deliveries", "Discard deliveries"
        REPLAY_EVENTS = "replay_events", "Replay events to an endpoint"
        REDRIVE_TASKS = "redrive_tasks", "Redrive tasks"
        CANCEL_TASKS = "cancel_tasks", "Cancel tasks"

    class State(models.TextChoices):
        PREVIEW = "preview", "preview"
        RUNNING = "running", "running"
        PAUSED = "paused", "paused"
        STOPPED = "stopped", "stopped by its canary"
        COMPLETED = "completed", "completed"
        CANCELLED = "cancelled", "cancelled"

    verb = models.CharField(max_length=30, choices=Verb.choices)
    filter = models.JSONField(default=dict, help_text="As asked for; relative times are pinned at creation.")
    watermark = models.BigIntegerField(default=0, help_text="Only rows with an id up to this one.")
    subscriber = models.CharField(max_length=100, blank=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.RUNNING)
    reason = models.CharField(max_length=300)
    actor = models.CharField(max_length=100)
    rate_per_second = models.PositiveIntegerField(null=True, blank=True)
    canary_size = models.PositiveIntegerField(default=0, help_text="So many first; stop if the same failure returns.")
    canary_state = models.CharField(max_length=10, blank=True)
    target_count = models.PositiveIntegerField(default=0, help_text="Rows that matched at creation.")
    is_frozen = models.BooleanField(default=False, editable=False, help_text="Its rows are written down as parts.")
    done_count = models.PositiveIntegerField(default=0)
    skipped_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    cursor = models.BigIntegerField(default=0, help_text="The last id handled; a crash resumes here.")
    detail = models.TextField(blank=True)
    lease_token = models.UUIDField(null=True, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = CreatedAt()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["id"], name="operation_running", condition=Q(state="running"))]

    leads: tuple[Lead, ...] = ()

    def __str__(self) -> str:
        return f"{self.get_verb_display()} #{self.pk}"


class OperationPart(models.Model):
    """A thousand ids of the frozen set that an operation has still to do; gone once they are done."""

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="parts", db_index=False)
    last_id = models.BigIntegerField(help_text="The highest of them.")
    ids = ArrayField(models.BigIntegerField())

    class Meta:
        ordering = ["last_id"]
        constraints = [models.UniqueConstraint(fields=["operation", "last_id"], name="operationpart_once")]

    def __str__(self) -> str:
        return f"{len(self.ids)} ids up to {self.last_id}"


class OperationItem(models.Model):
    """What became of one row of an operation."""

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="items")
    object_id = models.BigIntegerField()
    outcome = models.CharField(max_length=20)
    detail = models.CharField(max_length=200, blank=True)
    at = CreatedAt()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["operation", "object_id"], name="operationitem_once")]

    def __str__(self) -> str:
        return f"{self.object_id}: {self.outcome}"


class Alert(models.Model):
    """Something an operator must know. One open alert for a rule and its subject at a time."""

    class State(models.TextChoices):
        OPEN = "open", "open"
        ACKNOWLEDGED = "acknowledged", "acknowledged"
        RESOLVED = "resolved", "resolved"

    rule = models.CharField(max_length=40)
    subject = models.CharField(max_length=120, blank=True, help_text="e.g. endpoint:12, kind:map_search")
    state = models.CharField(max_length=12, choices=State.choices, default=State.OPEN)
    title = models.CharField(max_length=200)
    detail = models.TextField(blank=True)
    advice = models.TextField(blank=True, help_text="What to do.")
    link = models.CharField(max_length=300, blank=True)
    value = models.FloatField(null=True, blank=True)
    opened_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=100, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["rule", "subject"], name="alert_one_open", condition=~Q(state="resolved"))
        ]

    leads: tuple[Lead, ...] = ()

    def __str__(self) -> str:
        return self.title


class Heartbeat(models.Model):
    """When a process of a role was last seen alive; one row a process, swept after a day."""

    role = models.CharField(max_length=20, help_text="beat, tasks, delivery, web")
    process = models.CharField(max_length=120, unique=True, help_text="role@host:pid")
    seen_at = models.DateTimeField(db_index=True)
    started_at = models.DateTimeField()
    clock_ahead_ms = models.BigIntegerField(
        null=True, help_text="By how much its host's clock is ahead of the database's; negative: behind."
    )

    class Meta:
        ordering = ["role", "process"]

    def __str__(self) -> str:
        return self.process
