"""An operator's settings for a kind."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from kernel.clock import UpdatedAt
from kernel.json_fields import ShownJSONField
from tasks.models.limits import (
    MAX_ATTEMPTS,
    MAX_BATCH,
    MAX_CONCURRENCY,
    MAX_MEMORY_MB,
    MAX_RATE_PER_MINUTE,
    MAX_TIMEOUT_SECONDS,
    bounded,
)


class KindPolicy(models.Model):
    """An operator's settings for a kind, read at every claim: editable while everything runs."""

    kind = models.CharField(max_length=60, unique=True)
    provider = models.CharField(max_length=60, blank=True, help_text="Where new work goes; empty for internal kinds.")
    options = ShownJSONField(default=dict, blank=True, help_text="For the provider: model, actor; over the account's.")
    starts_again_unasked = models.BooleanField(
        default=False,
        help_text="A start whose answer never came, at a provider that cannot be asked, is made again: it may be paid "
        "twice. Otherwise the task waits for you.",
    )
    is_paused = models.BooleanField(default=False, help_text="Holds its queued tasks; running ones go on.")
    concurrency = models.PositiveIntegerField(
        default=500, validators=bounded(MAX_CONCURRENCY), help_text="Most tasks running at once."
    )
    rate_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=bounded(MAX_RATE_PER_MINUTE),
        help_text="Most starts a minute; empty: no limit. To start none, pause the kind.",
    )
    subscriber_concurrency = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=bounded(MAX_CONCURRENCY),
        help_text="Most tasks of one subscriber running at once; empty: as many as of all.",
    )
    subscriber_rate_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=bounded(MAX_RATE_PER_MINUTE),
        help_text="Most starts a minute for one subscriber; empty: no limit.",
    )
    memory_mb = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=bounded(MAX_MEMORY_MB),
        help_text="Most memory that one run in our own workers may take, in MB; empty: 1,024.",
    )
    attempt_limit = models.PositiveSmallIntegerField(default=3, validators=bounded(MAX_ATTEMPTS))
    timeout_seconds = models.PositiveIntegerField(
        default=3600, validators=bounded(MAX_TIMEOUT_SECONDS), help_text="How long one attempt may take."
    )
    batch_size = models.PositiveIntegerField(
        default=50, validators=bounded(MAX_BATCH), help_text="Most tasks in one start call."
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
            models.CheckConstraint(
                condition=~Q(subscriber_concurrency=0) & ~Q(subscriber_rate_per_minute=0) & ~Q(memory_mb=0),
                name="kindpolicy_shares_say_what_they_mean",
            ),
        ]

    def __str__(self) -> str:
        return self.kind

    def attempt_deadline(self, now: datetime) -> datetime:
        return now + timedelta(seconds=self.timeout_seconds)

    @property
    def has_shares(self) -> bool:
        """Whether each subscriber has a limit of its own."""
        return self.subscriber_concurrency is not None or self.subscriber_rate_per_minute is not None


class SubscriberShare(models.Model):
    """What a subscriber has used of a kind's rate. Made when it is first limited; forgotten once it is full again."""

    kind = models.CharField(max_length=60)
    subscriber = models.CharField(max_length=100, blank=True)
    tokens = models.FloatField(null=True)
    tokens_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subscriber"], name="subscribershare_once")]

    def __str__(self) -> str:
        return f"{self.subscriber} in {self.kind}"
