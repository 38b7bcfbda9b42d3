"""The shapes of `/endpoints/`. Whole URLs, header values and secrets only for those who may see them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from delivery import endpoint_rules, endpoint_secrets, endpoints
from delivery.api.base import may_see_urls
from delivery.api.serializers import ReasonIn, Strict
from delivery.endpoint_rules import EVENT_TYPE
from delivery.models import Endpoint
from delivery.policy import quotas
from delivery.policy.catalogue import ENDPOINT_TEST
from delivery.policy.postback import MASK, masked
from delivery.states import BreakerState, DeadLetters, EndpointState, MissingField, SignatureScheme, WaitReason
from kernel import clock
from kernel.api.lists import CountedListField
from kernel.secrets import unreadable_fields


class EndpointIn(Strict, serializers.ModelSerializer):
    """What a caller may set. `secret` may be brought along on creation; otherwise one is made."""

    url = serializers.CharField(
        max_length=quotas.MAX_URL, help_text="Where events go; for a postback, the URL template."
    )
    event_types = CountedListField(
        child=serializers.CharField(max_length=quotas.MAX_EVENT_TYPE),
        required=False,
        max_length=quotas.MAX_EVENT_TYPES,
        help_text="Types it wants, e.g. task.succeeded or task.*; empty: all.",
    )
    retry_delays = CountedListField(
        child=serializers.IntegerField(min_value=0, max_value=2**31 - 1),
        required=False,
        max_length=quotas.MAX_DELAYS,
        help_text="Seconds; for custom.",
    )
    transient_codes = CountedListField(
        child=serializers.IntegerField(min_value=0, max_value=2**15 - 1),
        required=False,
        max_length=quotas.MAX_TRANSIENT_CODES,
        help_text="Status codes to retry against the table.",
    )
    headers = serializers.DictField(child=serializers.CharField(allow_blank=True), required=False, allow_null=True)
    body_rule = serializers.DictField(
        child=serializers.CharField(max_length=quotas.MAX_RULE_TEXT),
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


class LiveSecret(serializers.Serializer):
    """A secret that signs at present, by its id; the same id stands in `key_ids` of the attempts it signed."""

    id = serializers.CharField()
    scheme = serializers.ChoiceField(choices=SignatureScheme.choices)
    created_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True, help_text="Null: the standing one, which signs without end.")


class EndpointOut(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(choices=EndpointState.values)
    url = serializers.SerializerMethodField(help_text="Masked for those who may not write endpoints.")
    headers = serializers.SerializerMethodField()
    body_template = serializers.SerializerMethodField(help_text="Masked likewise.")
    gives_up = serializers.SerializerMethodField(help_text="In words, when a delivery becomes a dead letter.")
    has_client_certificate = serializers.SerializerMethodField()
    warnings = serializers.SerializerMethodField(help_text="What will not work, such as an expired certificate.")
    secrets = serializers.SerializerMethodField(help_text="Which secrets sign, and until when; never a secret itself.")
    unreadable = serializers.SerializerMethodField(
        help_text="Fields that no master key opens; set them anew (secrets: rotate), or put the key back."
    )

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
            "warnings",
            "public_key",
            "secret_changed_at",
            "secrets",
            "unreadable",
            "paused_at",
            "disabled_at",
            "attention_at",
            "created_at",
            "updated_at",
        )
        read_only_fields = fields

    def get_url(self, endpoint: Endpoint) -> str:
        if "url" in unreadable_fields(endpoint):
            return ""
        return endpoint.url if may_see_urls(self.context["request"]) else masked(endpoint.url)

    def get_headers(self, endpoint: Endpoint) -> dict[str, str]:
        if "headers" in unreadable_fields(endpoint):
            return {}
        whole = may_see_urls(self.context["request"])
        headers: dict[str, str] = endpoint.headers or {}  # type: ignore[assignment]
        return {name: value if whole else MASK for name, value in headers.items()}

    def get_body_template(self, endpoint: Endpoint) -> str:
        whole = may_see_urls(self.context["request"]) or not endpoint.body_template
        return endpoint.body_template if whole else MASK

    def get_gives_up(self, endpoint: Endpoint) -> str:
        return endpoints.gives_up(endpoint)

    def get_has_client_certificate(self, endpoint: Endpoint) -> bool:
        return "client_certificate" in unreadable_fields(endpoint) or bool(endpoint.client_certificate)

    @extend_schema_field(LiveSecret(many=True))
    def get_secrets(self, endpoint: Any) -> Any:
        return LiveSecret(endpoint_secrets.shown(endpoint, endpoint.read_at), many=True).data

    def get_unreadable(self, endpoint: Endpoint) -> list[str]:
        return sorted(unreadable_fields(endpoint))

    def get_warnings(self, endpoint: Endpoint) -> list[str]:
        is_readable = "client_certificate" not in unreadable_fields(endpoint)
        pem = (endpoint.client_certificate or "") if is_readable else ""
        return endpoint_rules.warnings_of(pem, endpoint.ca_certificate, clock.now())


class EndpointWithSecret(EndpointOut):
    """The answer to creation and rotation: the only ones that tell the secret."""

    secret = serializers.CharField(
        help_text="Shown this once. Empty for v1a: the receiver needs `public_key`, and the private key stays here."
    )

    class Meta(EndpointOut.Meta):
        fields = (*EndpointOut.Meta.fields, "secret")
        read_only_fields = fields


class ResumeIn(ReasonIn):
    redrive_refused = serializers.BooleanField(
        required=False, default=True, help_text="Redrive the dead letters of the refusals that held it."
    )


class SettleIn(ReasonIn):
    """What becomes of dead letters."""

    dead_letters = serializers.ChoiceField(
        choices=[word for word in DeadLetters.values if word != DeadLetters.KEEP],
        help_text="discard: given up for good. move: owed to `move_to`, under the same event ids.",
    )
    move_to = serializers.RegexField(
        "^[0-9]{1,18}$", required=False, help_text="For move: another endpoint of the subscriber."
    )


class DeleteIn(SettleIn):
    """The query of a deletion."""

    dead_letters = serializers.ChoiceField(
        choices=DeadLetters.choices,
        required=False,
        default=DeadLetters.KEEP.value,
        help_text="keep: they stay, and no alert counts them. discard or move need the scope deliveries:write too.",
    )


class SettledOut(serializers.Serializer):
    discarded = serializers.IntegerField()
    moved = serializers.IntegerField(help_text="New deliveries to the other endpoint.")
    had_already = serializers.IntegerField(help_text="Not sent twice: the other endpoint has or waits for the event.")
    is_done = serializers.BooleanField(help_text="False: there are many; the rest is settled within minutes.")


class RotationIn(ReasonIn):
    secret = serializers.CharField(required=False, default="", allow_blank=True, max_length=200)
    signature_scheme = serializers.ChoiceField(choices=SignatureScheme.choices, required=False)
    overlap_seconds = serializers.IntegerField(min_value=0, max_value=30 * 86_400, required=False, default=86_400)


class EndSecretIn(ReasonIn):
    id = serializers.CharField(max_length=64, help_text="Of the endpoint's `secrets`.")


class ReplayIn(ReasonIn):
    """Events by id, or those recorded from `since` until `until` that the endpoint's filter (or `types`) matches."""

    events = CountedListField(
        child=serializers.RegexField("^[0-9]{1,18}$"), required=False, min_length=1, max_length=quotas.REPLAYED_IDS
    )
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    types = CountedListField(
        child=serializers.RegexField(rf"^({EVENT_TYPE.pattern})$", max_length=quotas.MAX_EVENT_TYPE),
        required=False,
        min_length=1,
        max_length=quotas.REPLAYED_TYPES,
    )
    dry_run = serializers.BooleanField(required=False, default=False, help_text="Only say what would be sent.")
    after = serializers.RegexField("^[0-9]{1,18}$", required=False, default="0", help_text="`next_after` of the last.")


class ReplayOut(serializers.Serializer):
    deliveries = serializers.IntegerField(help_text="That were made, or with `dry_run` would be; at most 10,000.")
    deliveries_is_capped = serializers.BooleanField(help_text="There are more than one call makes.")
    next_after = serializers.CharField(allow_null=True, help_text="Not null: there is more; call again with `after`.")
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What of it waited already, or was sent a moment ago."
    )
    dry_run = serializers.BooleanField()


class PreviewIn(Strict):
    """An event, recorded (`event`) or made up (`type`, `data`); and changes to the template not saved yet."""

    event = serializers.RegexField("^[0-9]{1,18}$", required=False)
    type = serializers.CharField(required=False, default=ENDPOINT_TEST, max_length=100)
    data = serializers.DictField(required=False, default=dict)  # type: ignore[assignment]
    url = serializers.CharField(required=False, max_length=quotas.MAX_URL)
    method = serializers.ChoiceField(choices=["GET", "POST", "PUT"], required=False)
    body_template = serializers.CharField(required=False, allow_blank=True, max_length=quotas.MAX_TEMPLATE)
    body_content_type = serializers.CharField(required=False, allow_blank=True, max_length=100)
    missing_field = serializers.ChoiceField(choices=MissingField.choices, required=False)
    missing_default = serializers.CharField(required=False, allow_blank=True, max_length=100)


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
    breaker = serializers.ChoiceField(choices=BreakerState.choices)
    consecutive_failures = serializers.IntegerField()
    threshold = serializers.IntegerField()
    opened_at = serializers.DateTimeField(allow_null=True)
    probe_at = serializers.DateTimeField(allow_null=True)
    cooldown_seconds = serializers.IntegerField()
    throttled_until = serializers.DateTimeField(
        allow_null=True, help_text="Nothing is sent before; a Retry-After counts for 24 hours at most."
    )
    wait_reason = serializers.ChoiceField(choices=WaitReason.choices, allow_blank=True)
    pace_per_second = serializers.FloatField(allow_null=True, help_text="Learned from answers of 429; null: no limit.")
    pace = serializers.CharField(allow_blank=True, help_text="The same in words, with the reason.")
    own_fault_kind = serializers.CharField(help_text="What of ours fails here at present; empty: nothing.")
    own_fault_count = serializers.IntegerField()
    own_fault_since = serializers.DateTimeField(allow_null=True)
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
    waiting_is_capped = serializers.BooleanField(help_text="More wait than were counted.")
    delivered_last_day = serializers.IntegerField()
    attempts_last_day = serializers.IntegerField()
