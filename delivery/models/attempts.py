"""What was tried: one row for each request, by day."""

from django.db import models

from delivery.models.deliveries import Delivery
from delivery.models.endpoints import Endpoint
from kernel.database.windows import Lead


class Attempt(models.Model):
    """Append-only: one HTTP try of a delivery (or a rescue). Partitioned by day of `started_at`; see the migration."""

    delivery = models.ForeignKey(
        Delivery, on_delete=models.DO_NOTHING, db_constraint=False, related_name="attempts", db_index=False
    )
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.DO_NOTHING, db_constraint=False, related_name="attempts", db_index=False
    )
    number = models.PositiveSmallIntegerField(
        help_text="1, 2, 3 … over the delivery's whole life, whatever came of each and whether it cost an attempt."
    )
    cycle = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="0; one more after each redrive.")
    outcome = models.CharField(max_length=20)
    status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    started_at = models.DateTimeField()
    queue_wait_ms = models.PositiveIntegerField(default=0, help_text="Due until sent.")
    dns_ms = models.FloatField(null=True, blank=True)
    connect_ms = models.FloatField(null=True, blank=True)
    tls_ms = models.FloatField(null=True, blank=True)
    first_byte_ms = models.FloatField(null=True, blank=True)
    total_ms = models.FloatField(null=True, blank=True)
    address = models.CharField(max_length=60, blank=True, help_text="The address really dialled.")
    signed_at = models.BigIntegerField(null=True, blank=True, help_text="webhook-timestamp, Unix seconds.")
    key_ids = models.CharField(max_length=60, blank=True, help_text="Which keys signed.")
    is_probe = models.BooleanField(default=False)
    worker = models.CharField(max_length=80, blank=True)
    response_head = models.BinaryField(null=True, blank=True, help_text="At most 16 KiB, after decompression.")
    response_truncated = models.BooleanField(default=False, db_default=False, help_text="There was more than is kept.")
    retry_at = models.DateTimeField(null=True, blank=True, help_text="When the next attempt was planned.")
    request_sent = models.BooleanField(null=True, blank=True, help_text="Whether the receiver may have it.")
    note = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="What was odd about an answer that counts."
    )

    class Meta:
        ordering = ["started_at", "id"]
        indexes = [
            models.Index(fields=["delivery", "id"], name="attempt_delivery"),
            models.Index(fields=["endpoint", "started_at"], name="attempt_endpoint"),
        ]

    leads = (Lead(("delivery_id",)),)

    def __str__(self) -> str:
        return f"Attempt {self.number} of delivery {self.delivery_id}: {self.outcome}"
