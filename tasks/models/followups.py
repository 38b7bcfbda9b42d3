"""What is to be made once a batch, or a single task, has ended."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt
from kernel.database.windows import Lead
from tasks.models.work import Batch, Task
from tasks.states import FollowUpState, When


class FollowUp(models.Model):
    """One wish of one parent: written in the transaction that ended the parent, and carried out exactly once.

    What it makes are batches, whose `follow_up` it is: one, or several where there are more items than a batch holds.
    `cursor` and `item_offset` say how far it has come, `left_out` which tasks it has passed by because they had not
    succeeded, `remaining` which are left for the next time the parent is completed (null: all).
    """

    parent_batch = models.ForeignKey(
        Batch, null=True, blank=True, on_delete=models.CASCADE, related_name="follow_ups", db_index=False
    )
    parent_task = models.ForeignKey(
        Task, null=True, blank=True, on_delete=models.CASCADE, related_name="follow_ups", db_index=False
    )
    key = models.CharField(max_length=80, help_text="Which of its parent's wishes it is.")
    kind = models.CharField(max_length=60)
    on = models.CharField(max_length=9, choices=When.choices, default=When.COMPLETED)
    then = models.JSONField(null=True, blank=True, help_text="What follows what it makes.")
    subscriber = models.CharField(max_length=100, blank=True)
    state = models.CharField(max_length=8, choices=FollowUpState.choices, default=FollowUpState.WAITING)
    reason = models.CharField(max_length=60, blank=True, help_text="A reason word.")
    detail = models.TextField(blank=True)
    revision = models.PositiveIntegerField(default=0, help_text="Of its parent's completions, the last.")
    begun_revision = models.PositiveIntegerField(default=0, editable=False)
    cursor = models.PositiveIntegerField(default=0, editable=False)
    item_offset = models.PositiveIntegerField(default=0, editable=False)
    left_out = ArrayField(models.BigIntegerField(), default=list, editable=False)
    remaining = ArrayField(models.BigIntegerField(), null=True, blank=True, editable=False)
    made_count = models.PositiveIntegerField(default=0, help_text="Tasks it has made.")
    refused_count = models.PositiveIntegerField(default=0, help_text="Items that its kind did not take.")
    created_at = CreatedAt()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        permissions = [("redrive_followup", "Can redrive a follow-up")]
        constraints = [
            models.UniqueConstraint(
                fields=["parent_batch", "key"], name="followup_once_a_batch", condition=Q(parent_batch__isnull=False)
            ),
            models.UniqueConstraint(
                fields=["parent_task", "key"], name="followup_once_a_task", condition=Q(parent_task__isnull=False)
            ),
            models.CheckConstraint(
                condition=Q(parent_batch__isnull=True, parent_task__isnull=False)
                | Q(parent_batch__isnull=False, parent_task__isnull=True),
                name="followup_one_parent",
            ),
            models.CheckConstraint(condition=Q(state__in=FollowUpState.values), name="followup_state_known"),
        ]
        indexes = [
            models.Index(fields=["id"], name="followup_waiting", condition=Q(state="waiting")),
            models.Index(fields=["state", "-id"], name="followup_state"),
            models.Index(fields=["subscriber", "-id"], name="followup_subscriber"),
        ]

    leads = (Lead(("parent_batch_id",)), Lead(("parent_task_id",)), Lead(("state",)), Lead(("subscriber",)))

    def __str__(self) -> str:
        return f"{self.kind} after {self.parent_words}"

    @property
    def parent_words(self) -> str:
        return f"batch {self.parent_batch_id}" if self.parent_batch_id else f"task {self.parent_task_id}"
