"""Inbound events for API callers: read them, see the reason words, replay one.

A key bound to a subscriber sees only the events that speak of its tasks, of those only its own jobs, and no body.
"""

import base64
from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.problems import Conflict
from kernel.auth import HasScope, caller_of, may_see_payloads, need
from tasks.models import ExternalJob, Task
from tasks.states import Reason
from webhooks import inbox
from webhooks.errors import CannotReplay
from webhooks.models import InboundEvent, InboundOutcome, Refusal

SHOWN = (
    "id",
    "source",
    "provider",
    "verdict",
    "verdict_reason",
    "verdict_detail",
    "outcome",
    "reason",
    "results",
    "correlation_id",
    "duplicate_count",
    "is_id_reused",
    "body_bytes",
    "parked_until",
    "received_at",
    "judged_at",
)


class ResultSerializer(serializers.Serializer):
    """What one job's news did."""

    job_id = serializers.CharField()
    item_key = serializers.CharField(required=False)
    status = serializers.ChoiceField(InboundOutcome.choices)
    reason = serializers.ChoiceField([*Reason.choices, *Refusal.choices], required=False)
    detail = serializers.CharField(required=False, help_text="Why this entry cannot be read.")
    task = serializers.CharField(required=False, help_text="The task's id, where one has this job.")


class InboundEventSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)
    outcome = serializers.ChoiceField(InboundOutcome.choices, allow_blank=True, help_text="Empty until it is judged.")
    results = serializers.SerializerMethodField()

    class Meta:
        model = InboundEvent
        fields: tuple[str, ...] = SHOWN
        read_only_fields: tuple[str, ...] = fields

    def get_results(self, event: InboundEvent) -> list[dict[str, Any]]:
        mine: set[int] | None = self.context.get("own_tasks")
        shown = [row for row in event.results if mine is None or row.get("task_id") in mine]
        return [_with_task(row) for row in shown]


class InboundEventDetailSerializer(InboundEventSerializer):
    """With the body, as text where it is UTF-8 and as base64 where it is not; null for who may not see it."""

    body = serializers.SerializerMethodField()
    body_base64 = serializers.SerializerMethodField()

    class Meta(InboundEventSerializer.Meta):
        fields: tuple[str, ...] = (*SHOWN, "headers", "remote_addr", "body", "body_base64")
        read_only_fields: tuple[str, ...] = fields

    def get_body(self, event: InboundEvent) -> str | None:
        return _as_text(event.body) if self.context["may_see_body"] else None

    def get_body_base64(self, event: InboundEvent) -> str | None:
        if not self.context["may_see_body"] or _as_text(event.body) is not None:
            return None
        return base64.b64encode(event.body).decode()

    def to_representation(self, event: InboundEvent) -> dict[str, Any]:
        shown = super().to_representation(event)
        return shown if self.context["may_see_body"] else {**shown, "headers": None, "remote_addr": None}


class ReplaySerializer(serializers.Serializer):
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class ReplayedSerializer(serializers.Serializer):
    """The event as it stands now, and what this run did; an outcome never gets worse by a replay."""

    event = InboundEventSerializer()
    results = ResultSerializer(many=True)


class InboundEventFilter(django_filters.FilterSet):
    job_id = django_filters.CharFilter(method="with_job", label="A job id that the event speaks of")
    received_after = django_filters.IsoDateTimeFilter(field_name="received_at", lookup_expr="gte")
    received_before = django_filters.IsoDateTimeFilter(field_name="received_at", lookup_expr="lt")

    class Meta:
        model = InboundEvent
        fields = ("source", "provider", "verdict", "verdict_reason", "outcome", "reason", "correlation_id")

    def with_job(self, queryset: QuerySet, _name: str, value: str) -> QuerySet:
        """A bound key finds by its own jobs only: an event may speak of others' too, and would tell that they exist."""
        bound = caller_of(self.request).subscriber
        if bound is not None and not ExternalJob.objects.filter(job_id=value, task__subscriber=bound).exists():
            return queryset.none()
        return queryset.filter(pk__in=inbox.of_job(value))


@extend_schema_view(
    list=extend_schema(summary="List inbound events"),
    retrieve=extend_schema(summary="Get an inbound event with its body"),
)
class InboundEventViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Stored provider callbacks, newest first."""

    permission_classes = (HasScope("tasks:read", "tasks:write"),)
    serializer_class = InboundEventSerializer
    filterset_class = InboundEventFilter
    queryset = InboundEvent.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        need(request, "webhooks.view_inboundevent")

    def get_queryset(self) -> QuerySet[InboundEvent]:
        bound = caller_of(self.request).subscriber
        events = InboundEvent.objects.all()
        events = events if self.action == "retrieve" else events.defer("body", "headers")
        return events if bound is None else events.filter(subscribers__contains=[bound])

    def get_serializer_class(self) -> type[serializers.BaseSerializer]:
        return InboundEventDetailSerializer if self.action == "retrieve" else InboundEventSerializer

    def get_serializer(self, *args: Any, **kwargs: Any) -> serializers.BaseSerializer:
        context = {
            **self.get_serializer_context(),
            "may_see_body": _may_see_body(self.request),
            "own_tasks": _own_tasks(self.request, args[0] if args else []),
        }
        return self.get_serializer_class()(*args, **{**kwargs, "context": context})

    @extend_schema(summary="Judge it again", request=ReplaySerializer, responses=ReplayedSerializer)
    @action(detail=True, methods=["post"])
    def replay(self, request: Request, pk: str | None = None) -> Response:
        """Judge a stored event once more by its stored verdict; no second effect."""
        need(request, "webhooks.replay_inboundevent")
        event = self.get_object()
        asked = ReplaySerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        try:
            event, results = inbox.replay(
                event.pk, actor=caller_of(request).name, reason=asked.validated_data["reason"]
            )
        except CannotReplay as refused:
            raise Conflict(refused.detail, code=refused.code) from None
        own = _own_tasks(request, [event])
        shown = [_with_task(row) for row in results if own is None or row.get("task_id") in own]
        return Response({"event": self.get_serializer(event).data, "results": shown})


def _may_see_body(request: Request) -> bool:
    return caller_of(request).subscriber is None and may_see_payloads(request, "webhooks.view_payload_inboundevent")


def _own_tasks(request: Request, events: Any) -> set[int] | None:
    """Of the tasks these events speak of, those of the key's subscriber; None for a caller who sees all."""
    bound = caller_of(request).subscriber
    if bound is None:
        return None
    listed = [events] if isinstance(events, InboundEvent) else events
    ids = {row["task_id"] for event in listed for row in event.results if "task_id" in row}
    return set(Task.objects.filter(pk__in=ids, subscriber=bound).values_list("pk", flat=True))


def _with_task(row: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in row.items() if key != "task_id"}
    return {**shown, "task": str(row["task_id"])} if "task_id" in row else shown


def _as_text(body: bytes | memoryview) -> str | None:
    try:
        return bytes(body).decode("utf-8")
    except UnicodeDecodeError:
        return None
