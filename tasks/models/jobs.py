"""The external jobs that carry tasks out, and what their providers sent."""

import uuid

from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt, UpdatedAt
from kernel.database.windows import Lead
from tasks.models.work import Task
from tasks.states import JobState


class ExternalJob(models.Model):
    """The provider's run of a task. A task may have several, one after the other; only the newest counts.

    Several may carry one attempt: a start that came to nothing is not charged.
    """

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="jobs")
    provider = models.CharField(max_length=60, help_text="The account's name.")
    options = models.JSONField(default=dict, help_text="As it was started with: model, actor.")
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
    result_until = models.DateTimeField(null=True, blank=True, help_text="When the provider forgets its result.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it ended, by the provider's clock.")
    stop_at = models.DateTimeField(
        null=True, blank=True, help_text="Nobody wants it any more: when its provider is asked to stop it."
    )
    stop_tries = models.PositiveSmallIntegerField(default=0, help_text="How often that was asked.")
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
    unanswered_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when its start, never answered, waits for a callback or a person."
    )

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
            models.Index(
                fields=["provider"],
                name="externaljob_unanswered",
                condition=Q(state="submitting", unanswered_at__isnull=False),
            ),
            models.Index(
                fields=["provider", "stop_at"], name="externaljob_to_stop", condition=Q(stop_at__isnull=False)
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
