"""Events out: endpoints, events, deliveries, attempts and what is known of each endpoint's health.

State columns are written only by `delivery.lifecycle` and `delivery.engine.claims`. Hot rows (Delivery, EndpointHealth)
carry no wide columns: payloads live on Event, response heads on Attempt.
"""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Q, Value, When

from delivery.states import (
    AWAITS_TURN,
    SWITCHES,
    BreakerState,
    EndpointState,
    MissingField,
    RequestForm,
    RetryProfile,
    SignatureScheme,
    State,
    WaitReason,
)
from kernel.secrets import EncryptedJSONField, EncryptedTextField


class Endpoint(models.Model):
    """Where a subscriber's events go: URL, filter, request, secrets and policy."""

    name = models.CharField(max_length=100, blank=True)
    subscriber = models.CharField(
        max_length=100, blank=True, help_text="Whose events it gets; empty: the operators' own."
    )
    event_types = ArrayField(
        models.CharField(max_length=100),
        default=list,
        blank=True,
        help_text="Types it wants, e.g. task.succeeded or task.*; empty: all.",
    )
    # The whole URL is a secret: partners put tokens into its path and query.
    url = EncryptedTextField(help_text="For a postback, the URL template.")
    host = models.CharField(
        max_length=255, editable=False, help_text="Host and port of the URL; what logs and lists name."
    )
    request_form = models.CharField(max_length=10, choices=RequestForm.choices, default=RequestForm.EVENT)
    method = models.CharField(max_length=6, default="POST", choices=[(m, m) for m in ("POST", "GET", "PUT")])
    body_template = models.TextField(blank=True)
    body_content_type = models.CharField(max_length=100, blank=True, default="")
    missing_field = models.CharField(max_length=8, choices=MissingField.choices, default=MissingField.REFUSE)
    missing_default = models.CharField(max_length=100, blank=True)
    body_rule = models.JSONField(
        null=True,
        blank=True,
        help_text=(
            'What a 2xx body must say: {"success": …, "duplicate": …, "refused": …}, each optional: '
            "phrases, | between alternatives."
        ),
    )
    ordering_key = models.CharField(
        max_length=100,
        blank=True,
        help_text="Field whose equal values are delivered strictly in order, e.g. data.click_id.",
    )
    headers = EncryptedJSONField(null=True, blank=True, help_text="Extra request headers.")
    retry_profile = models.CharField(max_length=10, choices=RetryProfile.choices, default=RetryProfile.SPEC)
    retry_delays = ArrayField(models.PositiveIntegerField(), default=list, blank=True, help_text="Seconds; for custom.")
    max_attempts = models.PositiveSmallIntegerField(default=5)
    timeout_ms = models.PositiveIntegerField(default=15_000, help_text="From connect through the last body byte.")
    max_concurrency = models.PositiveIntegerField(default=20, help_text="Most requests in the air at once.")
    rate_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: no limit.")
    rate_burst = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: a tenth of the rate, at least 1.")
    transient_codes = ArrayField(
        models.PositiveSmallIntegerField(),
        default=list,
        blank=True,
        help_text="Status codes to retry against the table.",
    )
    breaker_threshold = models.PositiveIntegerField(default=10)
    breaker_cooldown_seconds = models.PositiveIntegerField(default=300)
    signature_scheme = models.CharField(max_length=4, choices=SignatureScheme.choices, default=SignatureScheme.V1)
    secret = EncryptedTextField(blank=True, editable=False, help_text="whsec_… or, for v1a, whsk_….")
    earlier_secrets = EncryptedJSONField(
        null=True,
        blank=True,
        editable=False,
        help_text="Secrets that still sign beside it, newest first: see `delivery.endpoint_secrets`.",
    )
    rotation_token = models.CharField(
        max_length=32, blank=True, default="", editable=False, help_text="Of the page that rotated it last."
    )
    secret_changed_at = models.DateTimeField(null=True, blank=True, editable=False)
    public_key = models.CharField(max_length=80, blank=True, editable=False, help_text="whpk_…, for v1a.")
    ca_certificate = models.TextField(blank=True, help_text="PEM; an own CA for this endpoint.")
    client_certificate = EncryptedTextField(
        blank=True, default="", editable=False, help_text="PEM, certificate and key."
    )
    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    disabled_at = models.DateTimeField(null=True, blank=True, editable=False)
    attention_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Held after repeated refusals."
    )
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    hold_reason = models.CharField(max_length=200, blank=True, editable=False)
    is_held = models.GeneratedField(  # the claim's one test
        expression=Q(paused_at__isnull=False)  # type: ignore[arg-type]  # a Q is an expression, the stubs forgot
        | Q(disabled_at__isnull=False)
        | Q(attention_at__isnull=False)
        | Q(deleted_at__isnull=False),
        output_field=models.BooleanField(),
        db_persist=True,
    )
    version = models.PositiveIntegerField(default=1, editable=False, help_text="Counts changes; engines cache by it.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("pause_endpoint", "Can pause, resume and enable an endpoint"),
            ("view_secret_endpoint", "Can see whole URLs and rotate secrets"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(max_attempts__gte=1, timeout_ms__gte=100, max_concurrency__gte=1, breaker_threshold__gte=1),
                name="endpoint_at_least_one",
            ),
        ]
        indexes = [
            models.Index(fields=["subscriber"], name="endpoint_subscriber", condition=Q(deleted_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name or 'Endpoint'} #{self.pk} ({self.host})"

    @property
    def state(self) -> str:
        """The one word an operator reads: the strongest switch that is set (`in_endpoint_state` finds by it)."""
        return str(next((word for column, word in SWITCHES if getattr(self, column)), EndpointState.ACTIVE))


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
    own_fault_kind = models.CharField(max_length=30, blank=True, help_text="What of ours failed here last.")
    own_fault_count = models.PositiveIntegerField(default=0, help_text="Faults of ours in a row.")
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
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        permissions = [("view_payload_event", "Can see the payloads of events")]
        constraints = [models.UniqueConstraint(fields=["uid", "subscriber"], name="event_uid_once")]
        indexes = [
            models.Index(fields=["type", "-id"], name="event_type"),
            models.Index(fields=["created_at"], name="event_created"),
            models.Index(fields=["id"], name="event_unmatched", condition=Q(delivery_count=0)),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.uid}"

    @property
    def state(self) -> str:
        return "queued" if self.delivery_count else "unmatched"


class Delivery(models.Model):
    """One event owed to one endpoint. A hot row: no payload here."""

    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="deliveries", db_index=False)
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    attempt_count = models.PositiveSmallIntegerField(default=0)
    throttle_count = models.PositiveSmallIntegerField(default=0, help_text="Times running it was told to wait.")
    throttled_at = models.DateTimeField(null=True, blank=True, help_text="When it was first told to, of those times.")
    rescue_count = models.PositiveSmallIntegerField(default=0, help_text="Leases in a row that expired.")
    redrive_count = models.PositiveSmallIntegerField(default=0)
    try_count = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text="Attempts in its whole life: throttled ones, probes, rescues and those before a redrive included.",
    )
    next_attempt_at = models.DateTimeField(help_text="Due from then on, while pending or waiting to retry.")
    lease_token = models.UUIDField(null=True, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True, editable=False)
    ordering_key = models.CharField(
        max_length=200, blank=True, help_text="Value; rows with an equal one keep their order."
    )
    last_outcome = models.CharField(max_length=20, blank=True)
    last_status_code = models.PositiveSmallIntegerField(null=True, blank=True)
    last_response_ms = models.PositiveIntegerField(null=True, blank=True)
    last_error = models.CharField(max_length=300, blank=True)
    cancel_reason = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Why it was given up on purpose."
    )
    fingerprint = models.CharField(max_length=32, blank=True, help_text="Groups dead letters of one cause.")
    replay_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="replays", db_index=False
    )
    is_replay = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True, help_text="When it became final.")

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        permissions = [
            ("redrive_delivery", "Can redrive a delivery"),
            ("discard_delivery", "Can discard a delivery"),
            ("view_payload_delivery", "Can see what was sent and answered"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=State.values), name="delivery_state_known"),
            models.CheckConstraint(
                condition=Q(state="in_flight", lease_token__isnull=False, leased_until__isnull=False)
                | (~Q(state="in_flight") & Q(lease_token__isnull=True)),
                name="delivery_leased_in_flight",
            ),
            # Whole, so that it also answers "the deliveries of this event"; each replay is unique by its own id.
            models.UniqueConstraint(
                F("event"),
                F("endpoint"),
                Case(When(is_replay=True, then=F("id")), default=Value(0), output_field=models.BigIntegerField()),
                name="delivery_once",
            ),
        ]
        indexes = [
            # The claim's skip-scan. There must be no global due index beside it: the planner would flip to it.
            models.Index(
                fields=["endpoint", "next_attempt_at"],
                name="delivery_due",
                condition=Q(state__in=["pending", "failed"]),
            ),
            # Counted by the claim for its cap, read whole by the rescue: it never has more rows than are in the air.
            models.Index(
                fields=["endpoint", "leased_until"], name="delivery_in_flight", condition=Q(state="in_flight")
            ),
            models.Index(fields=["endpoint", "-id"], name="delivery_by_endpoint"),
            models.Index(fields=["endpoint", "id"], name="delivery_dead", condition=Q(state="dead_letter")),
            models.Index(
                fields=["endpoint", "ordering_key", "id"],
                name="delivery_ordered",
                condition=~Q(ordering_key="") & Q(state__in=["pending", "failed", "in_flight", "dead_letter"]),
            ),
            # Not for the two states that every delivery passes through: each index entry is paid for on the hot path.
            models.Index(
                fields=["state", "-id"],
                name="delivery_state",
                condition=Q(state__in=["pending", "failed", "dead_letter", "cancelled"]),
            ),
            models.Index(fields=["replay_of"], name="delivery_replay", condition=Q(replay_of__isnull=False)),
            models.Index(fields=["finished_at"], name="delivery_finished", condition=Q(finished_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"Delivery {self.pk}"

    @property
    def is_final(self) -> bool:
        return self.state in (State.DELIVERED, State.DEAD_LETTER, State.CANCELLED)

    @property
    def awaits_turn(self) -> bool:
        """An earlier delivery with the same ordering key is not finished yet; until then this one is not due."""
        return self.state in (State.PENDING, State.FAILED) and self.next_attempt_at >= AWAITS_TURN


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

    def __str__(self) -> str:
        return f"Attempt {self.number} of delivery {self.delivery_id}: {self.outcome}"


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


def endpoint_label(endpoint: Endpoint) -> dict[str, Any]:
    """How logs name an endpoint: id and host, never its URL."""
    return {"endpoint": endpoint.pk, "host": endpoint.host}
