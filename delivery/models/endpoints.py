"""Where events go, and how."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from delivery.states import (
    SWITCHES,
    DeadLetters,
    EndpointState,
    MissingField,
    RequestForm,
    RetryProfile,
    SignatureScheme,
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
        max_length=32, blank=True, default="", db_default="", editable=False,
        help_text="Of the page that rotated it last.",
    )  # fmt: skip
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
    dead_letters = models.CharField(
        max_length=7,
        choices=DeadLetters.choices,
        default=DeadLetters.KEEP,
        db_default=DeadLetters.KEEP,
        editable=False,
        help_text="Once it is deleted.",
    )
    dead_letters_to = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False, editable=False
    )
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


# Large, or encrypted and so opened for each row that is read: no list needs them.
WIDE = ("url", "headers", "body_template", "body_rule", "ca_certificate", "client_certificate", "secret",
        "earlier_secrets")  # fmt: skip


def lean(rows: models.QuerySet[Any], path: str = "") -> models.QuerySet[Any]:
    """Without the wide columns of the endpoints; `path` leads to them, as in `endpoint__`."""
    return rows.defer(*(f"{path}{name}" for name in WIDE))


def endpoint_label(endpoint: Endpoint) -> dict[str, Any]:
    """How logs name an endpoint: id and host, never its URL."""
    return {"endpoint": endpoint.pk, "host": endpoint.host}
