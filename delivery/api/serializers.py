"""The shapes of the API. Ids are strings, times ISO 8601 UTC; unknown fields are refused, so a typo is no surprise."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from delivery import events, labels
from delivery.models import Attempt, Delivery, Event
from delivery.policy import telling
from delivery.policy.outcomes import EXPLANATIONS, Outcome
from delivery.policy.quotas import EVENTS_PER_CALL
from delivery.states import AWAITS_TURN, WAITING_STATES
from kernel.auth import is_key
from kernel.parsing import shown_loads


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


class EventIn(Strict):
    type = serializers.RegexField(
        rf"^{events.TYPE.pattern}$", max_length=events.MAX_TYPE, help_text="e.g. order.paid: words with dots between."
    )
    data = serializers.DictField()  # type: ignore[assignment]
    subscriber = serializers.CharField(max_length=events.MAX_SUBSCRIBER, required=False, default="", allow_blank=True)
    uid = serializers.RegexField(rf"^{events.UID.pattern}$", required=False, help_text="The webhook-id; ours if none.")
    occurred_at = serializers.DateTimeField(required=False)

    def validate_type(self, value: str) -> str:
        if refused := events.refused_type(value):
            raise serializers.ValidationError(refused, code="reserved_type")
        return value

    def validate_uid(self, value: str) -> str:
        if refused := events.refused_uid(value):
            raise serializers.ValidationError(refused, code="reserved_uid")
        return value


class BulkIn(Strict):
    events = EventIn(many=True, min_length=1, max_length=EVENTS_PER_CALL)  # type: ignore[call-arg]


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
    """With the payload, for those who may see it, up to 1 MiB; `payload_omitted` says why it is null.

    New events are shorter than that by far; those that were stored under larger bounds are at `payload_url`.
    """

    payload = serializers.SerializerMethodField()
    payload_bytes = serializers.IntegerField(help_text="How long the download of it is.")
    payload_omitted = serializers.SerializerMethodField(help_text="Why it is null: `no_right` or `too_large`.")
    payload_url = serializers.SerializerMethodField(help_text="The whole of it, however long, as it is sent.")

    class Meta(EventAccepted.Meta):
        fields = (*EventAccepted.Meta.fields, "payload", "payload_bytes", "payload_omitted", "payload_url")  # type: ignore[assignment]

    @extend_schema_field({"type": ["object", "null"], "additionalProperties": True})
    def get_payload(self, event: Event) -> Any:
        short = self._short(event)
        return None if short is None else shown_loads(bytes(short))

    @extend_schema_field({"type": ["string", "null"], "enum": ["no_right", "too_large", None]})
    def get_payload_omitted(self, event: Event) -> str | None:
        if not self.context.get("shows_payload"):
            return "no_right"
        return "too_large" if self._short(event) is None else None

    def get_payload_url(self, event: Event) -> str:
        address: str = self.context["request"].build_absolute_uri(f"/api/v1/events/{event.pk}/payload/")
        return address

    @staticmethod
    def _short(event: Event) -> Any:
        return getattr(event, "short_payload", None)  # the view reads it for those who may see it


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
    last_error = serializers.SerializerMethodField(help_text="What went wrong; nothing of our own networks.")
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
            "try_count",
            "next_attempt_at",
            "last_outcome",
            "last_status_code",
            "last_response_ms",
            "last_error",
            "cancel_reason",
            "redrive_count",
            "rescue_count",
            "is_replay",
            "replay_of",
            "fingerprint",
            "created_at",
            "delivered_at",
            "finished_at",
        )

    def get_last_error(self, delivery: Delivery) -> str:
        for_keys = is_key(self.context.get("request"))
        return telling.error_for_keys(delivery.last_outcome, delivery.last_error) if for_keys else delivery.last_error

    def get_next_attempt_at(self, delivery: Delivery) -> datetime | None:
        waits = delivery.state in WAITING_STATES and delivery.next_attempt_at < AWAITS_TURN
        return delivery.next_attempt_at if waits else None


class AttemptOut(serializers.ModelSerializer):
    id = serializers.CharField()
    outcome = serializers.ChoiceField(choices=[str(outcome) for outcome in Outcome])
    outcome_words = serializers.SerializerMethodField()
    key_ids = serializers.SerializerMethodField(help_text="Which keys signed.")
    error = serializers.SerializerMethodField(help_text="What went wrong; nothing of our own networks.")
    address = serializers.SerializerMethodField(
        help_text="The one that was dialled; empty for keys where it is in a private network."
    )
    response_head = serializers.SerializerMethodField(
        help_text="Null for those who may not see it, and for keys where a private network answered."
    )
    response_encoding = serializers.SerializerMethodField(
        help_text="utf-8, windows-1252 or, where it is no text, base64."
    )
    response_truncated = serializers.BooleanField(help_text="There was more than the first 16 KiB, which are kept.")
    request_sent = serializers.BooleanField(
        allow_null=True, help_text="Whether the receiver may have it; null where that is not known."
    )
    note = serializers.CharField(help_text="What was odd about an answer that counts all the same.")

    class Meta:
        model = Attempt
        fields = (
            "id",
            "number",
            "cycle",
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
            "response_truncated",
            "request_sent",
            "note",
        )

    def get_outcome_words(self, attempt: Attempt) -> str:
        return EXPLANATIONS.get(attempt.outcome, attempt.outcome)  # type: ignore[call-overload]

    def get_key_ids(self, attempt: Attempt) -> list[str]:
        return [key_id for key_id in attempt.key_ids.split(",") if key_id]

    def get_error(self, attempt: Attempt) -> str:
        return telling.error_for_keys(attempt.outcome, attempt.error) if self._for_keys else attempt.error

    def get_address(self, attempt: Attempt) -> str:
        return telling.address_for_keys(attempt.address) if self._for_keys else attempt.address

    @property
    def _for_keys(self) -> bool:
        return is_key(self.context.get("request"))

    def _shows_answer(self, attempt: Attempt) -> bool:
        is_shown = not self._for_keys or telling.answer_for_keys(attempt.address)
        return bool(self.context.get("shows_payload")) and is_shown

    def get_response_head(self, attempt: Attempt) -> str | None:
        if not self._shows_answer(attempt) or attempt.response_head is None:
            return None
        head = bytes(attempt.response_head)
        text, _ = labels.text_of(head)
        return text if text is not None else base64.b64encode(head).decode()

    def get_response_encoding(self, attempt: Attempt) -> str:
        if not self._shows_answer(attempt):
            return "utf-8"
        return labels.text_of(bytes(attempt.response_head or b""))[1]
