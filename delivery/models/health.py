"""What is known of each endpoint at run time. A hot row: no wide columns here."""

from django.db import models
from django.db.models import Q

from delivery.models.endpoints import Endpoint
from delivery.states import BreakerState, WaitReason


class EndpointHealth(models.Model):
    """The runtime side of an endpoint: breaker, limits and latency. The claim locks this row first."""

    endpoint = models.OneToOneField(Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="health")
    breaker_state = models.CharField(max_length=10, choices=BreakerState.choices, default=BreakerState.CLOSED)
    consecutive_failures = models.PositiveIntegerField(default=0)
    cooldown_seconds = models.PositiveIntegerField(default=300, help_text="Of the opening under way; doubles.")
    opened_at = models.DateTimeField(null=True, blank=True)
    probe_at = models.DateTimeField(null=True, blank=True, help_text="When the next probe may go.")
    probe_token = models.UUIDField(null=True, blank=True)
    probe_until = models.DateTimeField(null=True, blank=True)
    last_failure_at = models.DateTimeField(null=True, blank=True)
    last_success_at = models.DateTimeField(null=True, blank=True)
    refusal_kind = models.CharField(
        max_length=200, blank=True, help_text="Outcomes and codes of the first refusals in a row, commas between."
    )
    refusal_count = models.PositiveIntegerField(default=0)
    own_fault_kind = models.CharField(
        max_length=30, blank=True, default="", db_default="", help_text="What of ours failed here last."
    )
    own_fault_count = models.PositiveIntegerField(default=0, db_default=0, help_text="Faults of ours in a row.")
    own_fault_since = models.DateTimeField(null=True, blank=True)
    throttled_until = models.DateTimeField(null=True, blank=True, help_text="Nothing goes before; see wait_reason.")
    wait_reason = models.CharField(max_length=10, choices=WaitReason.choices, blank=True, db_default="")
    pace_per_second = models.FloatField(null=True, blank=True, help_text="Learned from answers of 429; none: no limit.")
    pace_ceiling = models.FloatField(null=True, blank=True, help_text="The pace at which it last answered 429.")
    pace_clock = models.FloatField(default=0, db_default=0, help_text="Seconds of sending since the pace was lowered.")
    pace_sent = models.PositiveIntegerField(default=0, db_default=0, help_text="Sent since then.")
    pace_lowered_at = models.DateTimeField(null=True, blank=True)
    pace_probe_until = models.DateTimeField(null=True, blank=True, help_text="After a wait one goes first; until then.")
    throttle_streak = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Waits in a row without a delivery let pass."
    )
    throttle_status = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="The code that lowered the pace."
    )
    test_id = models.BigIntegerField(null=True, blank=True, help_text="A test delivery that goes out whatever holds.")
    tokens = models.FloatField(null=True, blank=True, help_text="Of the rate limit's bucket.")
    tokens_at = models.DateTimeField(null=True, blank=True)
    p50_ms = models.FloatField(null=True, blank=True)
    p95_ms = models.FloatField(null=True, blank=True)
    p99_ms = models.FloatField(null=True, blank=True)
    sample_count = models.PositiveIntegerField(default=0)
    phases = models.JSONField(default=dict, blank=True, help_text="Percentiles of each phase, ms.")
    p95_day_before_ms = models.FloatField(null=True, blank=True)
    is_slow = models.BooleanField(default=False)
    measured_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "endpoint health"
        indexes = [
            models.Index(fields=["breaker_state"], name="health_not_closed", condition=~Q(breaker_state="closed")),
        ]

    def __str__(self) -> str:
        return f"Health of endpoint {self.endpoint_id}"
