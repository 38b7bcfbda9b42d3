"""What is owed: an event to an endpoint."""

from django.db import models
from django.db.models import Case, F, Q, Value, When

from delivery.models.endpoints import Endpoint
from delivery.models.events import Event
from delivery.states import AWAITS_TURN, State
from kernel.clock import CreatedAt
from kernel.database.windows import Lead

FINE = ["", "delivered", "duplicate"]  # last outcomes that are no failure: not tried yet, and arrived


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
    created_at = CreatedAt()
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
            # What is asked for by its failure. A delivery that arrives at its first try is in neither.
            models.Index(fields=["last_outcome", "-id"], name="delivery_outcome", condition=~Q(last_outcome__in=FINE)),
            models.Index(fields=["fingerprint", "-id"], name="delivery_fingerprint", condition=~Q(fingerprint="")),
            models.Index(fields=["replay_of"], name="delivery_replay", condition=Q(replay_of__isnull=False)),
            models.Index(fields=["finished_at"], name="delivery_finished", condition=Q(finished_at__isnull=False)),
        ]

    leads = (
        Lead(("event_id",)),
        Lead(("event__uid",)),
        Lead(("event__correlation_id",)),
        Lead(("fingerprint",), bool),
        Lead(("endpoint_id", "state"), lambda _endpoint, state: state == State.DEAD_LETTER),
        Lead(("state",), lambda state: state != State.DELIVERED),
        Lead(("last_outcome",), lambda outcome: outcome not in FINE),
        Lead(("endpoint_id",)),
    )

    def __str__(self) -> str:
        return f"Delivery {self.pk}"

    @property
    def is_final(self) -> bool:
        return self.state in (State.DELIVERED, State.DEAD_LETTER, State.CANCELLED)

    @property
    def awaits_turn(self) -> bool:
        """An earlier delivery with the same ordering key is not finished yet; until then this one is not due."""
        return self.state in (State.PENDING, State.FAILED) and self.next_attempt_at >= AWAITS_TURN
