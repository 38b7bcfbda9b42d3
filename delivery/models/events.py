"""What happened, with the exact bytes that are sent."""

from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt
from kernel.database.windows import Lead


class Event(models.Model):
    """An immutable fact. `payload` holds the exact bytes that are signed and sent; `uid` is the `webhook-id`."""

    uid = models.CharField(max_length=64)
    type = models.CharField(max_length=100)
    subscriber = models.CharField(max_length=100, blank=True)
    payload = models.BinaryField()
    payload_sha256 = models.CharField(max_length=64, editable=False)
    correlation_id = models.CharField(max_length=64, db_index=True)
    caller = models.CharField(max_length=80, blank=True)
    delivery_count = models.PositiveIntegerField(default=0, help_text="Deliveries made when it was recorded.")
    occurred_at = models.DateTimeField()
    created_at = CreatedAt()

    class Meta:
        ordering = ["-id"]
        permissions = [("view_payload_event", "Can see the payloads of events")]
        constraints = [models.UniqueConstraint(fields=["uid", "subscriber"], name="event_uid_once")]
        indexes = [
            models.Index(fields=["type", "-id"], name="event_type"),
            models.Index(fields=["created_at"], name="event_created"),
            models.Index(fields=["id"], name="event_unmatched", condition=Q(delivery_count=0)),
        ]

    leads = (
        Lead(("uid",)),
        Lead(("correlation_id",)),
        Lead(("delivery_count",), lambda count: count == 0),
        Lead(("type",)),
    )

    def __str__(self) -> str:
        return f"{self.type} {self.uid}"

    @property
    def state(self) -> str:
        return "queued" if self.delivery_count else "unmatched"
