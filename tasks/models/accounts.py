"""Accounts at job providers: whose key, which limits, and whether it is served at present."""

import uuid
from datetime import datetime

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt, UpdatedAt
from kernel.json_fields import ShownJSONField
from kernel.secrets import EncryptedTextField
from tasks.models.limits import MAX_CONCURRENCY, MAX_RATE_PER_MINUTE, bounded

NAME = RegexValidator(
    r"\A[a-z][a-z0-9_]{0,59}\Z", "Use small letters, digits and underscores, a letter first: it is part of URLs."
)


class ProviderAccount(models.Model):
    """One account at one provider. Its name stands in the rows of its jobs and in its callback URLs, and stays.

    Limits and holds are the account's: whatever kind a start, poll, fetch or cancel is for, the provider counts them
    together. Of several accounts of one adapter each has its own.
    """

    name = models.CharField(max_length=60, unique=True, validators=[NAME])
    adapter = models.CharField(max_length=60, help_text="Which provider it is at.")
    base_url = models.CharField(max_length=500, blank=True, help_text="Only where the adapter allows one.")
    api_key = EncryptedTextField(blank=True, help_text="What the provider knows us by.")
    webhook_secret = EncryptedTextField(blank=True, help_text="What its webhooks are signed with.")
    previous_secret = EncryptedTextField(blank=True, editable=False)
    previous_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    options = ShownJSONField(default=dict, blank=True, help_text="The adapter's own: model, actor, region.")
    concurrency = models.PositiveIntegerField(
        null=True, blank=True, validators=bounded(MAX_CONCURRENCY), help_text="Most open jobs; empty: no limit."
    )
    starts_per_minute = models.PositiveIntegerField(
        null=True, blank=True, validators=bounded(MAX_RATE_PER_MINUTE), help_text="Most jobs begun; empty: no limit."
    )
    calls_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=bounded(MAX_RATE_PER_MINUTE),
        help_text="Most calls of every sort; empty: no limit.",
    )
    is_paused = models.BooleanField(default=False, help_text="Nothing new starts there; running jobs go on.")
    is_from_environment = models.BooleanField(default=False, editable=False)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    failing_since = models.DateTimeField(null=True, blank=True, editable=False, help_text="Of these calls in a row.")
    held_since = models.DateTimeField(null=True, blank=True, editable=False)
    held_until = models.DateTimeField(null=True, blank=True, editable=False, help_text="No starts before, by itself.")
    hold_reason = models.CharField(max_length=60, blank=True, editable=False)
    hold_text = models.CharField(max_length=300, blank=True, editable=False)
    failure_count = models.PositiveSmallIntegerField(
        default=0, editable=False, help_text="Calls in a row that the provider could not take."
    )
    start_tokens = models.FloatField(null=True, blank=True, editable=False)
    start_tokens_at = models.DateTimeField(null=True, blank=True, editable=False)
    call_tokens = models.FloatField(null=True, blank=True, editable=False)
    call_tokens_at = models.DateTimeField(null=True, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    check_words = models.CharField(max_length=300, blank=True, editable=False, help_text="What the last check found.")
    version = models.UUIDField(default=uuid.uuid4, editable=False, help_text="Another one after each change.")
    created_at = CreatedAt()
    updated_at = UpdatedAt()

    class Meta:
        ordering = ["name"]
        permissions = [("pause_provideraccount", "Can pause and resume a provider account")]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=r"^[a-z][a-z0-9_]*$"), name="provideraccount_name"),
            models.CheckConstraint(  # zero would mean no limit
                condition=~Q(concurrency=0) & ~Q(starts_per_minute=0) & ~Q(calls_per_minute=0),
                name="provideraccount_says_what_it_means",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def is_held(self, now: datetime) -> bool:
        return self.held_until is not None and self.held_until > now

    def secrets(self, now: datetime) -> list[str]:
        """What its webhooks may be signed with: the current one first. Raises UndecryptableSecret."""
        previous = self.previous_secret_until is not None and self.previous_secret_until > now
        return [secret for secret in (self.webhook_secret, self.previous_secret if previous else "") if secret]
