"""The shapes of the API. Ids are strings, times ISO 8601 UTC; unknown fields are refused, so a typo is no surprise."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from delivery import endpoints, events
from delivery.api.base import may_see_urls
from delivery.models import Attempt, Delivery, Endpoint, Event
from delivery.policy.outcomes import EXPLANATIONS, Outcome
from delivery.policy.postback import masked
from delivery.states import AWAITS_TURN, WAITING_STATES
from kernel.parsing import strict_loads

MASKED = "•••"


class Strict(serializers.Serializer):
    """Refuses what it does not know."""

    def to_internal_value(self, data: Any) -> Any:
        known = {name for name, field in self.fields.items() if not field.read_only}
        unknown = sorted(set(data) - known) if isinstance(data, dict) else []
        if unknown:
            raise serializers.ValidationError(
                {name: [serializers.ErrorDetail("There is no such field.", code="unknown_field")] for name in unknown}
            )
        return super().to_internal_value(data)


class ReasonIn(Strict):
    reason = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)


class EndpointIn(Strict, serializers.ModelSerializer):
    """What a caller may set. `secret` may be brought along on creation; otherwise one is made."""

    url = serializers.CharField(max_length=8000, help_text="Where events go; for a postback, the URL template.")
    headers = serializers.DictField(child=serializers.CharField(allow_blank=True), required=False, allow_null=True)
    body_rule = serializers.DictField(
        child=serializers.CharField(max_length=1_000),
        required=False,
        allow_null=True,
        help_text='What a 2xx body must say: {"success": "ok", "duplicate": "had it", "refused": "invalid|expired"}.',
    )
    client_certificate = serializers.CharField(required=False, allow_blank=True, write_only=True)
    secret = serializers.CharField(required=False, write_only=True, max_length=200)

    class Meta:
        model = Endpoint
        fields = (
            "name",
            "subscriber",
            "event_types",
            "url",
            "request_form",
            "method",
            "body_template",
            "body_content_type",
            "missing_field",
            "missing_default",
            "body_rule",
            "ordering_key",
            "headers",
            "retry_profile",
            "retry_delays",
            "max_attempts",
            "timeout_ms",
            "max_concurrency",
            "rate_per_minute",
            "rate_burst",
            "transient_codes",
            "breaker_threshold",
            "breaker_cooldown_seconds",
            "signature_scheme",
            "ca_certificate",
            "client_certificate",
            "secret",
        )


class EndpointChanges(EndpointIn):
    """Subscriber and keys never change by PATCH: a secret is rotated."""

    class Meta(EndpointIn.Meta):
        fields = tuple(  # type: ignore[assignment]
            name for name in EndpointIn.Meta.fields if name not in ("subscriber", "secret", "signature_scheme")
        )

    secret = None  # type: ignore[assignment]


class EndpointOut(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(choices=["active", "paused", "needs_attention", "disabled", "deleted"])
    url = serializers.SerializerMethodField(help_text="Masked for those who may not write endpoints.")
    headers = serializers.SerializerMethodField()
    gives_up = serializers.SerializerMethodField(help_text="In words, when a delivery becomes a dead letter.")
    has_client_certificate = serializers.SerializerMethodField()

    class Meta:
        model = Endpoint
        fields = (
            "id",
            "state",
            "hold_reason",
            "host",
            *(name for name in EndpointIn.Meta.fields if name not in ("secret", "client_certificate")),
            "gives_up",
            "has_client_certificate",
            "public_key",
            "secret_changed_at",
            "previous_secret_until",
            "paused_at",
            "disabled_at",
            "attention_at",
            "created_at",
            "updated_at",
        )
        read_only_fields = fields

    def get_url(self, endpoint: Endpoint) -> str:
        return endpoint.url if may_see_urls(self.context["request"]) else masked(endpoint.url)

    def get_headers(self, endpoint: Endpoint) -> dict[str, str]:
        whole = may_see_urls(self.context["request"])
        return {name: value if whole else MASKED for name, value in dict(endpoint.headers or {}).items()}

    def get_gives_up(self, endpoint: Endpoint) -> str:
        return endpoints.gives_up(endpoint)

    def get_has_client_certificate(self, endpoint: Endpoint) -> bool:
        return bool(endpoint.client_certificate)


class EndpointWithSecret(EndpointOut):
    """The answer to creation and rotation: the only ones that tell the secret."""

    secret = serializers.CharField(help_text="Shown this once.")

    class Meta(EndpointOut.Meta):
        fields = (*EndpointOut.Meta.fields, "secret")
        read_only_fields = fields


class RotationIn(ReasonIn):
    secret = serializers.CharField(required=False, default="", max_length=200)
    signature_scheme = serializers.ChoiceField(choices=["v1", "v1a"], required=False)
    overlap_seconds = serializers.IntegerField(min_value=0, max_value=30 * 86_400, required=False, default=86_400)


class ReplayIn(ReasonIn):
    """Events by id, or those recorded from `since` until `until` that the endpoint's filter (or `types`) matches."""

    events = serializers.ListField(child=serializers.RegexField("^[0-9]{1,18}$"), required=False, max_length=10_000)
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    types = serializers.ListField(child=serializers.CharField(max_length=100), required=False, max_length=100)
    after = serializers.RegexField("^[0-9]{1,18}$", required=False, default="0", help_text="`next_after` of the last.")


class ReplayOut(serializers.Serializer):
    deliveries = serializers.IntegerField()
    next_after = serializers.CharField(allow_null=True, help_text="Not null: there is more; call again with `after`.")


class PreviewIn(Strict):
    """An event, recorded (`event`) or made up (`type`, `data`); and changes to the template not saved yet."""

    event = serializers.RegexField("^[0-9]{1,18}$", required=False)
    type = serializers.CharField(required=False, default="endpoint.test", max_length=100)
    data = serializers.DictField(required=False, default=dict)  # type: ignore[assignment]
    url = serializers.CharField(required=False, max_length=8000)
    method = serializers.ChoiceField(choices=["GET", "POST", "PUT"], required=False)
    body_template = serializers.CharField(required=False, allow_blank=True)
    body_content_type = serializers.CharField(required=False, allow_blank=True)
    missing_field = serializers.ChoiceField(choices=["refuse", "empty", "default"], required=False)
    missing_default = serializers.CharField(required=False, allow_blank=True)


class PreviewOut(serializers.Serializer):
    method = serializers.CharField()
    url = serializers.CharField()
    body = serializers.CharField(allow_blank=True)
    content_type = serializers.CharField(allow_blank=True)
    fields_used = serializers.ListField(child=serializers.CharField())
    missing_fields = serializers.ListField(child=serializers.CharField())


class HealthOut(serializers.Serializer):
    state = serializers.CharField()
    hold_reason = serializers.CharField(allow_blank=True)
    breaker = serializers.ChoiceField(choices=["closed", "open", "half_open"])
    consecutive_failures = serializers.IntegerField()
    threshold = serializers.IntegerField()
    opened_at = serializers.DateTimeField(allow_null=True)
    probe_at = serializers.DateTimeField(allow_null=True)
    cooldown_seconds = serializers.IntegerField()
    throttled_until = serializers.DateTimeField(allow_null=True)
    last_success_at = serializers.DateTimeField(allow_null=True)
    last_failure_at = serializers.DateTimeField(allow_null=True)
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    p95_day_before_ms = serializers.FloatField(allow_null=True)
    sample_count = serializers.IntegerField()
    phases = serializers.DictField()
    is_slow = serializers.BooleanField()
    measured_at = serializers.DateTimeField(allow_null=True)
    waiting = serializers.IntegerField(help_text="Deliveries that wait; counted up to 100,000.")
    delivered_last_day = serializers.IntegerField()
    attempts_last_day = serializers.IntegerField()


class EventIn(Strict):
    type = serializers.RegexField(
        rf"^{events.TYPE.pattern}$", max_length=events.MAX_TYPE, help_text="e.g. order.paid: words with dots between."
    )
    data = serializers.DictField()  # type: ignore[assignment]
    subscriber = serializers.CharField(max_length=events.MAX_SUBSCRIBER, required=False, default="", allow_blank=True)
    uid = serializers.RegexField(rf"^{events.UID.pattern}$", required=False, help_text="The webhook-id; ours if none.")
    occurred_at = serializers.DateTimeField(required=False)


class BulkIn(Strict):
    events = EventIn(many=True, min_length=1, max_length=1_000)  # type: ignore[call-arg]


class EventAccepted(serializers.ModelSerializer):
    id = serializers.CharField()
    state = serializers.ChoiceField(choices=["queued", "unmatched"])
    deliveries = serializers.IntegerField(source="delivery_count", help_text="Endpoints that get it.")

    class Meta:
        model = Event
        fields = (
            "id",
            "uid",
            "type",
            "subscriber",
            "state",
            "deliveries",
            "correlation_id",
            "occurred_at",
            "created_at",
        )


class BulkOut(serializers.Serializer):
    events = EventAccepted(many=True)


class EventOut(EventAccepted):
    """With the payload, for those who may see it; null for others."""

    payload = serializers.SerializerMethodField()

    class Meta(EventAccepted.Meta):
        fields = (*EventAccepted.Meta.fields, "payload")  # type: ignore[assignment]

    @extend_schema_field({"type": "object", "nullable": True, "additionalProperties": True})
    def get_payload(self, event: Event) -> Any:
        return strict_loads(bytes(event.payload)) if self.context.get("shows_payload") else None


class DeliveryOut(serializers.ModelSerializer):
    id = serializers.CharField()
    event = serializers.CharField(source="event_id")
    event_uid = serializers.CharField(source="event.uid")
    event_type = serializers.CharField(source="event.type")
    endpoint = serializers.CharField(source="endpoint_id")
    subscriber = serializers.CharField(source="event.subscriber")
    replay_of = serializers.CharField(source="replay_of_id", allow_null=True)
    final = serializers.BooleanField(source="is_final")
    next_attempt_at = serializers.SerializerMethodField(help_text="Null where none is planned.")
    last_outcome = serializers.CharField(help_text=f"One of {', '.join(Outcome)}; empty before the first attempt.")

    class Meta:
        model = Delivery
        fields = (
            "id",
            "state",
            "final",
            "event",
            "event_uid",
            "event_type",
            "endpoint",
            "subscriber",
            "attempt_count",
            "next_attempt_at",
            "last_outcome",
            "last_status_code",
            "last_response_ms",
            "last_error",
            "redrive_count",
            "rescue_count",
            "is_replay",
            "replay_of",
            "fingerprint",
            "created_at",
            "delivered_at",
            "finished_at",
        )

    def get_next_attempt_at(self, delivery: Delivery) -> datetime | None:
        waits = delivery.state in WAITING_STATES and delivery.next_attempt_at < AWAITS_TURN
        return delivery.next_attempt_at if waits else None


class AttemptOut(serializers.ModelSerializer):
    id = serializers.CharField()
    outcome = serializers.ChoiceField(choices=[str(outcome) for outcome in Outcome])
    outcome_words = serializers.SerializerMethodField()
    key_ids = serializers.SerializerMethodField(help_text="Which keys signed.")
    response_head = serializers.SerializerMethodField(help_text="Null for those who may not see it.")
    response_encoding = serializers.SerializerMethodField(help_text="utf-8, or base64 where it is no text.")

    class Meta:
        model = Attempt
        fields = (
            "id",
            "number",
            "outcome",
            "outcome_words",
            "status_code",
            "error",
            "started_at",
            "queue_wait_ms",
            "dns_ms",
            "connect_ms",
            "tls_ms",
            "first_byte_ms",
            "total_ms",
            "address",
            "signed_at",
            "key_ids",
            "is_probe",
            "retry_at",
            "response_head",
            "response_encoding",
        )

    def get_outcome_words(self, attempt: Attempt) -> str:
        return EXPLANATIONS.get(attempt.outcome, attempt.outcome)  # type: ignore[call-overload]

    def get_key_ids(self, attempt: Attempt) -> list[str]:
        return [key_id for key_id in attempt.key_ids.split(",") if key_id]

    def get_response_head(self, attempt: Attempt) -> str | None:
        if not self.context.get("shows_payload") or attempt.response_head is None:
            return None
        head = bytes(attempt.response_head)
        return head.decode() if is_text(head) else base64.b64encode(head).decode()

    def get_response_encoding(self, attempt: Attempt) -> str:
        return "utf-8" if is_text(bytes(attempt.response_head or b"")) else "base64"


def is_text(head: bytes) -> bool:
    """Whether a response head can be shown as it is."""
    try:
        return "\x00" not in head.decode()
    except UnicodeDecodeError:
        return False
