"""`/events/`: publish one or a thousand, and read what was recorded."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http.response import HttpResponseBase
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from delivery import events
from delivery.api import payloads
from delivery.api.base import ApiViews
from delivery.api.serializers import BulkIn, BulkOut, EventAccepted, EventIn, EventOut
from delivery.models import Event
from kernel.api.downloads import download
from kernel.api.idempotency import idempotent
from kernel.api.openapi import IDEMPOTENCY_KEY, problem
from kernel.auth import HasScope, caller_of, may_see_payloads, narrow, subscriber_for
from kernel.parsing import ExactJSONParser, ExactJSONRenderer


class EventFilter(filters.FilterSet):
    type = filters.CharFilter()
    uid = filters.CharFilter()
    subscriber = filters.CharFilter()
    correlation_id = filters.CharFilter()
    state = filters.ChoiceFilter(choices=[("queued", "queued"), ("unmatched", "unmatched")], method="in_state")
    created_after = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")

    class Meta:
        model = Event
        fields = ("type", "uid", "subscriber", "correlation_id")

    def in_state(self, rows: QuerySet[Event], _name: str, value: str) -> QuerySet[Event]:
        unmatched = Q(delivery_count=0)
        return rows.filter(unmatched if value == "unmatched" else ~unmatched)


@extend_schema(tags=["events"])
@extend_schema_view(
    list=extend_schema(summary="List events", responses=EventAccepted),
    retrieve=extend_schema(summary="Get an event with its payload", responses=EventOut),
)
class EventViews(ListModelMixin, RetrieveModelMixin, ApiViews):
    """Immutable facts, recorded once and delivered to every endpoint that wants them."""

    queryset = Event.objects.all()
    permission_classes = [HasScope("deliveries:read", "events:write")]
    filterset_class = EventFilter
    parser_classes = [ExactJSONParser]
    renderer_classes = [ExactJSONRenderer]

    def get_queryset(self) -> QuerySet[Event]:
        rows = narrow(super().get_queryset(), self.request)
        if self.action != "retrieve":
            return rows.defer("payload")
        return payloads.with_short_payloads(rows) if self._shows_payload() else payloads.with_sizes(rows)

    def get_serializer_class(self) -> Any:
        return EventOut if self.action == "retrieve" else EventAccepted

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "shows_payload": self._shows_payload()}

    def _shows_payload(self) -> bool:
        return may_see_payloads(self.request, "delivery.view_payload_event")

    @extend_schema(
        summary="Get an event's payload", responses={(200, "application/json"): OpenApiTypes.ANY}, filters=False
    )
    @action(detail=True, pagination_class=None)
    def payload(self, request: Request, pk: str) -> HttpResponseBase:
        """The bytes that are signed and sent, streamed, however long they are."""
        if not self._shows_payload():
            raise PermissionDenied("You may not see payloads; ask an administrator for the right.")
        event = self.get_object()
        return download(*payloads.spooled(event.pk), filename=f"event-{event.pk}.json")

    @extend_schema(
        summary="Publish an event",
        description="202 once the event and its deliveries are stored; delivery happens afterwards.",
        request=EventIn,
        parameters=[IDEMPOTENCY_KEY],
        responses={
            202: EventAccepted,
            400: problem("A field is wrong, or the event is too large (`event_too_large`)"),
            409: problem("The uid stands for another body"),
        },
    )
    @idempotent
    def create(self, request: Request) -> Response:
        asked = EventIn(data=request.data)
        asked.is_valid(raise_exception=True)
        event = events.publish([self._new(request, asked.validated_data)])[0]
        return Response(EventAccepted(event).data, status=202)

    @extend_schema(
        summary="Publish up to 1,000 events",
        description=(
            "All or none, in one short transaction: a call whose events would make more deliveries than "
            "DELIVERIES_PER_CALL is refused, and says how many events fit. The answer lists them in the order given."
        ),
        request=BulkIn,
        parameters=[IDEMPOTENCY_KEY],
        responses={
            202: BulkOut,
            400: problem(
                "A field is wrong; `errors` names the event by its index. Or `too_many_deliveries`: send parts"
            ),
            413: problem("The body is too large: send the events in parts"),
        },
    )
    @action(detail=False, methods=["post"])
    @idempotent
    def bulk(self, request: Request) -> Response:
        asked = BulkIn(data=request.data)
        asked.is_valid(raise_exception=True)
        recorded = events.publish([self._new(request, item) for item in asked.validated_data["events"]])
        return Response({"events": EventAccepted(recorded, many=True).data}, status=202)

    @staticmethod
    def _new(request: Request, item: dict[str, Any]) -> events.NewEvent:
        return events.NewEvent(
            type=item["type"],
            data=item["data"],
            subscriber=subscriber_for(request, item["subscriber"]),
            uid=item.get("uid"),
            occurred_at=item.get("occurred_at"),
            caller=caller_of(request).name,
        )
