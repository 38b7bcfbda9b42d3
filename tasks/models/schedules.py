"""What is submitted again and again, and each time it was due."""

from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt
from kernel.json_fields import ShownJSONField
from tasks.models.limits import MAX_TIMEOUT_SECONDS, bounded
from tasks.models.work import Task
from tasks.states import Priority


class Schedule(models.Model):
    """A task submitted again and again: every so many seconds counted from `starts_at`, or by a crontab expression.

    `last_due_at` is the last slot that was made; `counts_from` is when its times were last changed. What was due before
    either is not made.
    """

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=60)
    input = ShownJSONField(default=dict, blank=True)
    subscriber = models.CharField(max_length=100, blank=True)
    priority = models.PositiveSmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)
    expires_after_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=bounded(MAX_TIMEOUT_SECONDS),
        help_text="A task not started by then is cancelled.",
    )
    unique_key = models.CharField(
        max_length=200, blank=True, help_text="A slot makes no task while an earlier one with this key is open."
    )
    every_seconds = models.PositiveIntegerField(
        null=True, blank=True, help_text="At least 60. Empty where there is a crontab expression."
    )
    crontab = models.CharField(
        max_length=100, blank=True, help_text="Minute, hour, day, month, weekday: 30 7 * * MON-FRI"
    )
    time_zone = models.CharField(max_length=60, default="UTC", help_text="The crontab expression's: Europe/Warsaw")
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
    counts_from = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = CreatedAt()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["subscriber", "name"],
                name="schedule_name_once",
                violation_error_message="This subscriber has a schedule of this name already. Choose another.",
            ),
            models.CheckConstraint(
                condition=Q(every_seconds__gte=60, crontab="") | (Q(every_seconds=None) & ~Q(crontab="")),
                name="schedule_has_one_rhythm",
                violation_error_message="It needs seconds or a crontab expression, and not both.",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ScheduleRun(models.Model):
    """One slot of a schedule. Unique, so that two schedulers, or one that was stopped, neither double nor lose one.

    One that was run by hand is no slot: its `due_at` is the moment it was asked for.
    """

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="runs")
    due_at = models.DateTimeField()
    task = models.ForeignKey(Task, null=True, blank=True, on_delete=models.SET_NULL)
    is_skipped = models.BooleanField(default=False)
    is_by_hand = models.BooleanField(default=False)
    reason = models.CharField(max_length=200, blank=True, help_text="Why it made no task.")
    created_at = CreatedAt()

    class Meta:
        ordering = ["-due_at"]
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="schedulerun_once")]
        indexes = [  # retention's
            models.Index(fields=["created_at"], name="schedulerun_taskless", condition=Q(task__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.schedule} at {self.due_at:%Y-%m-%d %H:%M}"
