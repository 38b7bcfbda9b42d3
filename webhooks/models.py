"""The inbox: every provider callback as it came, byte for byte, with what we made of it."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from kernel.clock import CreatedAt
from kernel.database.windows import Lead


class Refusal(models.TextChoices):
    """Why a call was turned away or an event came to nothing, beside the words of `tasks.states.Reason`."""

    SIGNATURE_MISSING = "signature_missing", "the call carries no signature"
    SIGNATURE_MALFORMED = "signature_malformed", "the signature's headers are not well formed"
    SIGNATURE_WRONG = "signature_wrong", "the signature does not fit this body and our secrets"
    TIMESTAMP = "timestamp_outside_tolerance", "signed more than five minutes ago, or in the future"
    NO_SECRET = "no_secret_configured", "we have no signing secret for this provider: set it in the environment"
    SECRET_UNUSABLE = (
        "secret_unusable",
        "our signing secret for this provider cannot be used: `manage.py doctor` says why",
    )
    SECRETS_UNAVAILABLE = "secrets_unavailable", "the signing secrets of this provider could not be had just now"
    UNKNOWN_SCHEME = "unknown_scheme", "the provider's adapter names a signature scheme that does not exist"
    UNKNOWN_SOURCE = "unknown_source", "no kind and no provider has this URL"
    TOO_LARGE = "too_large", "the body is larger than INBOUND_MAX_BYTES"
    BAD_ENCODING = "bad_encoding", "the content encoding is not gzip or deflate, or the body is broken"
    BODY_CUT_OFF = "body_cut_off", "the connection ended before the body did"
    NOT_PARSEABLE = "not_parseable", "the body is not this provider's payload"
    DEFERRED = "deferred", "more jobs than one call can answer in time; the rest follow within seconds"
    APPLY_FAILED = "apply_failed", "a fault of ours kept it from being applied; it is tried again for an hour"


OUR_FAULTS = frozenset(  # the call may well be genuine: the sender is told to send it again
    {Refusal.NO_SECRET, Refusal.SECRET_UNUSABLE, Refusal.SECRETS_UNAVAILABLE, Refusal.UNKNOWN_SCHEME}
)


class InboundVerdict(models.TextChoices):
    """What we made of the sender. Judged once, at receipt, and kept."""

    VERIFIED = "verified", "verified"
    REFUSED = "refused", "signature refused"
    UNPARSEABLE = "unparseable", "not parseable"


class InboundOutcome(models.TextChoices):
    """What the event did; empty while it is not judged yet."""

    APPLIED = "applied", "applied"
    ACCEPTED = "accepted", "accepted"
    IGNORED = "ignored", "ignored"


UNREAD = Q(verdict="unparseable", verdict_reason="not_parseable")  # signed by the provider, and not understood
TURNED_AWAY = Q(verdict="refused") | Q(verdict_reason__in=["too_large", "bad_encoding"])  # nobody knows whose they are


class InboundEvent(models.Model):
    """A stored provider callback. `results` has one `{job_id, status, reason}` for each job in it."""

    source = models.CharField(max_length=120)
    provider = models.CharField(max_length=60)
    body = models.BinaryField(help_text="As it came; of a refused call only the first 64 KiB.")
    body_bytes = models.PositiveIntegerField(default=0, help_text="Its whole length as it came.")
    headers = models.JSONField(default=dict, help_text="Only the headers that judging needs; no credentials.")
    remote_addr = models.GenericIPAddressField(null=True, blank=True)
    dedupe_key = models.CharField(max_length=200)
    verdict = models.CharField(max_length=12, choices=InboundVerdict.choices)
    verdict_reason = models.CharField(max_length=60, blank=True)
    verdict_detail = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Why it cannot be read, in words."
    )
    outcome = models.CharField(max_length=10, choices=InboundOutcome.choices, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    results = models.JSONField(default=list)
    subscribers = ArrayField(
        models.CharField(max_length=100), default=list, blank=True, help_text="Whose tasks it is about."
    )
    correlation_id = models.CharField(max_length=64, db_index=True)
    duplicate_count = models.PositiveIntegerField(default=0, help_text="Times the same event came again.")
    is_id_reused = models.BooleanField(
        default=False, db_default=False, help_text="An event with the same id and another body came before."
    )
    parked_until = models.DateTimeField(null=True, blank=True)
    received_at = CreatedAt()
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
            models.Index(
                fields=["dedupe_key"],
                name="inboundevent_reused",
                condition=Q(is_id_reused=True),
                opclasses=["varchar_pattern_ops"],
            ),
            models.Index(fields=["source", "dedupe_key"], name="inboundevent_unread", condition=UNREAD),
            models.Index(fields=["id"], name="inboundevent_turned_away", condition=TURNED_AWAY),
            GinIndex(fields=["results"], name="inboundevent_results", opclasses=["jsonb_path_ops"]),
            GinIndex(fields=["subscribers"], name="inboundevent_subscribers"),
        ]

    leads = (Lead(("correlation_id",)), Lead(("reason",)))

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


class RefusedDay(models.Model):
    """How much of a source's refused calls was stored on one day of the database's clock, against the day's budget."""

    source = models.CharField(max_length=120)
    day = models.DateField()
    stored_count = models.PositiveIntegerField(default=0)
    stored_bytes = models.PositiveBigIntegerField(default=0)
    beyond_count = models.PositiveBigIntegerField(default=0, help_text="Calls that the budget had no room for.")

    class Meta:
        ordering = ["-day", "source"]
        constraints = [models.UniqueConstraint(fields=["source", "day"], name="refusedday_daily")]

    def __str__(self) -> str:
        return f"{self.source} on {self.day}"
