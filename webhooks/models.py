"""The inbox: every provider callback as it came, byte for byte, with what we made of it."""

from django.db import models
from django.db.models import Q


class Verdict(models.TextChoices):
    """What we made of the sender. Judged once, at receipt, and kept."""

    VERIFIED = "verified", "verified"
    REFUSED = "refused", "signature refused"
    UNPARSEABLE = "unparseable", "not parseable"


class Outcome(models.TextChoices):
    """What the event did; empty while it is not judged yet."""

    APPLIED = "applied", "applied"
    ACCEPTED = "accepted", "accepted"
    IGNORED = "ignored", "ignored"


class InboundEvent(models.Model):
    """A stored provider callback. `results` has one `{job_id, status, reason}` for each job in it."""

    source = models.CharField(max_length=120)
    provider = models.CharField(max_length=60)
    body = models.BinaryField()
    headers = models.JSONField(default=dict, help_text="Only the headers that judging needs; no credentials.")
    remote_addr = models.GenericIPAddressField(null=True, blank=True)
    dedupe_key = models.CharField(max_length=200)
    verdict = models.CharField(max_length=12, choices=Verdict.choices)
    verdict_reason = models.CharField(max_length=60, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    results = models.JSONField(default=list)
    correlation_id = models.CharField(max_length=64, db_index=True)
    duplicate_count = models.PositiveIntegerField(default=0, help_text="Times the same event came again.")
    parked_until = models.DateTimeField(null=True, blank=True)
    received_at = models.DateTimeField(auto_now_add=True)
    judged_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("view_payload_inboundevent", "Can see the bodies of inbound events"),
            ("replay_inboundevent", "Can replay an inbound event"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["source", "dedupe_key"], name="inboundevent_once", condition=Q(verdict="verified")
            ),
        ]
        indexes = [
            models.Index(fields=["id"], name="inboundevent_unjudged", condition=Q(outcome="", verdict="verified")),
            models.Index(fields=["parked_until"], name="inboundevent_parked", condition=Q(parked_until__isnull=False)),
            models.Index(fields=["reason", "-id"], name="inboundevent_reason"),
        ]

    def __str__(self) -> str:
        return f"Inbound event {self.pk} ({self.source})"


class RefusedCall(models.Model):
    """Calls that were not stored one by one (too large, or a flood of bad signatures): counted by the hour."""

    source = models.CharField(max_length=120)
    reason = models.CharField(max_length=40)
    hour = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-hour"]
        constraints = [models.UniqueConstraint(fields=["source", "reason", "hour"], name="refusedcall_hourly")]

    def __str__(self) -> str:
        return f"{self.count} × {self.reason}"
