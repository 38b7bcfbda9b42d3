"""`/deliveries/`: what is owed to whom and what became of it; redrive, discard and send-now of a single one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from delivery import lifecycle
from delivery.api.base import ApiViews, need
from delivery.api.serializers import AttemptOut, DeliveryOut, ReasonIn
from delivery.dead_letters import KEPT
from delivery.errors import WrongState
from delivery.models import Attempt, Delivery
from delivery.policy.outcomes import Outcome
from delivery.states import State
from kernel.api.openapi import problem
from kernel.api.pages import CursorPages
from kernel.auth import HasScope, may_see_payloads, narrow
from kernel.filters import TrueFalseFilter, WholeNumberFilter

CLOCKS_DIFFER = timedelta(hours=1)


class DeliveryFilter(filters.FilterSet):
    state = filters.MultipleChoiceFilter(choices=State.choices, help_text="May be given several times.")
    endpoint = WholeNumberFilter(field_name="endpoint_id")
    event = WholeNumberFilter(field_name="event_id")
    event_uid = filters.CharFilter(field_name="event__uid")
    correlation_id = filters.CharFilter(field_name="event__correlation_id")
    subscriber = filters.CharFilter(field_name="event__subscriber")
    outcome = filters.ChoiceFilter(field_name="last_outcome", choices=[(str(word), str(word)) for word in Outcome])
    status_code = WholeNumberFilter(field_name="last_status_code")
    fingerprint = filters.CharFilter()
    is_replay = TrueFalseFilter()
    created_after = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")

    class Meta:
        model = Delivery
        fields = ("fingerprint", "is_replay")


class AttemptPages(CursorPages):
    """In the order they were made."""

    ordering = ("started_at", "id")  # type: ignore[assignment]


@extend_schema(tags=["deliveries"])
@extend_schema_view(
    list=extend_schema(summary="List deliveries"),
    retrieve=extend_schema(summary="Get a delivery", responses={200: DeliveryOut, 404: problem("Not yours, or gone")}),
)
class DeliveryViews(ListModelMixin, RetrieveModelMixin, ApiViews):
    """One event owed to one endpoint."""

    queryset = Delivery.objects.select_related("event").defer("event__payload")
    serializer_class = DeliveryOut
    permission_classes = [HasScope("deliveries:read", "deliveries:write")]
    filterset_class = DeliveryFilter

    def get_queryset(self) -> QuerySet[Delivery]:
        return narrow(super().get_queryset(), self.request, "event__subscriber")

    @extend_schema(summary="List its attempts, first to last", responses=AttemptOut(many=True))
    @action(detail=True, methods=["get"], pagination_class=AttemptPages, filterset_class=None)
    def attempts(self, request: Request, pk: str) -> Response:
        delivery = self.get_object()
        shows = may_see_payloads(request, "delivery.view_payload_delivery")
        # `started_at` lets PostgreSQL leave out the partitions of the days before.
        rows = Attempt.objects.filter(delivery=delivery, started_at__gte=delivery.created_at - CLOCKS_DIFFER)
        page: Any = self.paginate_queryset(rows if shows else rows.defer("response_head"))
        context = {**self.get_serializer_context(), "shows_payload": shows}
        return self.get_paginated_response(AttemptOut(page, many=True, context=context).data)

    @extend_schema(
        summary="Redrive a dead letter",
        description="New attempts of the same delivery: the receiver sees the same webhook-id.",
        request=ReasonIn,
        responses={200: DeliveryOut, 409: problem("It is no dead letter")},
    )
    @action(detail=True, methods=["post"])
    def redrive(self, request: Request, pk: str) -> Response:
        need(request, "delivery.redrive_delivery")
        return self._verb(lifecycle.redrive, "redriven")

    @extend_schema(
        summary="Discard a delivery",
        description="A dead letter, or one that waits, is given up for good.",
        request=ReasonIn,
        responses={200: DeliveryOut, 409: problem("It is under way or finished")},
    )
    @action(detail=True, methods=["post"])
    def discard(self, request: Request, pk: str) -> Response:
        need(request, "delivery.discard_delivery")
        return self._verb(lifecycle.discard, "discarded")

    @extend_schema(
        summary="Send a waiting delivery now",
        description="Without its back-off. Never past a hold, an open breaker or a wait that the receiver asked for.",
        request=ReasonIn,
        responses={
            200: DeliveryOut,
            409: problem("It does not wait, or its endpoint is held; `detail` says more"),
        },
    )
    @action(detail=True, methods=["post"], url_path="send-now")
    def send_now(self, request: Request, pk: str) -> Response:
        need(request, "delivery.redrive_delivery")
        lifecycle.send_now(self.get_object().pk, actor=self.actor(), reason=self._reason())
        return Response(self.get_serializer(self.get_object()).data)

    def _reason(self) -> str:
        asked = ReasonIn(data=self.request.data)
        asked.is_valid(raise_exception=True)
        return asked.validated_data["reason"]

    def _verb(self, verb: Any, done: str) -> Response:
        reason, delivery = self._reason(), self.get_object()
        if not verb([delivery.pk], actor=self.actor(), reason=reason):
            now = self.get_object()
            if now.state == State.DEAD_LETTER:
                raise WrongState(KEPT, code="endpoint_deleted")
            raise WrongState(f"This delivery is {now.get_state_display()}, so it cannot be {done}.")
        return Response(self.get_serializer(self.get_object()).data)
