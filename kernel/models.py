"""What every app shares: API keys, idempotency records and the audit trail."""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from kernel.clock import CreatedAt
from kernel.database.windows import Lead

IDEMPOTENCY_WINDOW = timedelta(hours=24)


class ApiKey(models.Model):
    """A caller's credential. The secret is shown once and kept as a SHA-256; 256 random bits need no slow hash."""

    name = models.CharField(max_length=100)
    key_id = models.CharField(max_length=16, unique=True, editable=False)
    secret_sha256 = models.CharField(max_length=64, editable=False)
    scopes = ArrayField(models.CharField(max_length=40), default=list)
    subscriber = models.CharField(
        max_length=100, blank=True, help_text="If set, the key sees and makes only this subscriber's rows."
    )
    is_demo = models.BooleanField(default=False, editable=False)
    created_at = CreatedAt()
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.key_id})"

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class IdempotencyRecord(models.Model):
    """The first answer to (caller, method, path, key), kept for 24 hours and given again to a repeat."""

    caller = models.CharField(max_length=80)
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=300)
    key = models.CharField(max_length=255)
    body_sha256 = models.CharField(max_length=64)
    status_code = models.PositiveSmallIntegerField(null=True)
    answer = models.JSONField(null=True)
    created_at = CreatedAt(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "method", "path", "key"], name="idempotency_one_answer"),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.path} by {self.caller}"


class AuditEntry(models.Model):
    """Append-only: who did what to which rows, when and why."""

    actor = models.CharField(max_length=100)
    verb = models.CharField(max_length=60)
    subject = models.CharField(max_length=60, help_text="e.g. delivery, endpoint")
    object_ids = ArrayField(models.BigIntegerField(), default=list, help_text="The first 1,000.")
    count = models.PositiveIntegerField(default=1)
    reason = models.CharField(max_length=300, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    at = CreatedAt()

    class Meta:
        db_table = "console_auditentry"  # where it began; a table that keeps its name is read by old processes too
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [GinIndex(fields=["object_ids"], name="auditentry_objects")]

    leads: tuple[Lead, ...] = ()

    def __str__(self) -> str:
        return f"{self.actor}: {self.verb} {self.subject}"


class BrokenStep(models.Model):
    """A step of a sweep that has failed since its last good run; see `kernel.steps`. Never the error's text."""

    name = models.CharField(max_length=100, primary_key=True)
    error = models.CharField(max_length=100, help_text="The class of the last error.")
    count = models.PositiveIntegerField(default=1, db_default=1)
    since = models.DateTimeField()
    last_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
