"""What is counted and measured, and stays when rows are pruned."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from delivery.models.endpoints import Endpoint


class LatencyBucket(models.Model):
    """Per endpoint, minute and phase: a histogram of milliseconds (see `delivery.latency` for the bounds)."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, db_index=False)
    minute = models.DateTimeField()
    phase = models.CharField(max_length=12)
    counts = ArrayField(models.PositiveIntegerField())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["endpoint", "minute", "phase"], name="latencybucket_once")]
        indexes = [models.Index(fields=["minute"], name="latencybucket_minute")]

    def __str__(self) -> str:
        return f"{self.phase} of endpoint {self.endpoint_id} at {self.minute}"


class StatsMinute(models.Model):
    """Per endpoint and minute: how many attempts ended with each outcome, and the time they took."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, db_index=False)
    minute = models.DateTimeField()
    outcome = models.CharField(max_length=20)
    count = models.PositiveIntegerField(default=0)
    total_ms = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["endpoint", "minute", "outcome"], name="statsminute_once")]
        indexes = [models.Index(fields=["minute"], name="statsminute_minute")]

    def __str__(self) -> str:
        return f"{self.count} × {self.outcome}"


class DailyTotal(models.Model):
    """What `account` balances with after rows were pruned: per day and subscriber, deliveries by where they ended."""

    day = models.DateField()
    subscriber = models.CharField(max_length=100, blank=True)
    recorded = models.BigIntegerField(default=0, help_text="Deliveries recorded, replays included.")
    unmatched = models.BigIntegerField(default=0, help_text="Events that matched no endpoint.")
    delivered = models.BigIntegerField(default=0)
    dead = models.BigIntegerField(default=0)
    discarded = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["day", "subscriber"], name="dailytotal_once")]

    def __str__(self) -> str:
        return f"{self.day} {self.subscriber}"
