"""`/endpoints/`: create, read, change, remove, health, replay, preview; the verbs are in `endpoint_verbs`.

The name service is asked before any transaction.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from delivery import endpoint_rules, endpoints, labels, previews, replays, stats
from delivery.api.base import may_see_urls, need
from delivery.api.endpoint_shapes import (
    DeleteIn,
    EndpointChanges,
    EndpointIn,
    EndpointOut,
    EndpointWithSecret,
    HealthOut,
    PreviewIn,
    PreviewOut,
    ReplayIn,
    ReplayOut,
    SettledOut,
    SettleIn,
)
from delivery.api.endpoint_verbs import EndpointVerbs
from delivery.models import Endpoint, Event
from delivery.states import EndpointState, in_endpoint_state
from kernel import clock, counting
from kernel.api.idempotency import idempotent
from kernel.api.openapi import IDEMPOTENCY_KEY, problem
from kernel.auth import HasScope, allows, narrow, subscriber_for
from kernel.parsing import ExactJSONParser

STORED_HEALTH = (
    "consecutive_failures",
    "opened_at",
    "probe_at",
    "cooldown_seconds",
    "throttled_until",
    "own_fault_kind",
    "own_fault_count",
    "own_fault_since",
    "wait_reason",
    "pace_per_second",
    "last_success_at",
    "last_failure_at",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "p95_day_before_ms",
    "sample_count",
    "phases",
    "is_slow",
    "measured_at",
)


LISTED_STATES = [(word.value, word.value) for word in EndpointState if word != EndpointState.DELETED]


class EndpointFilter(filters.FilterSet):
    subscriber = filters.CharFilter()
    host = filters.CharFilter()
    state = filters.ChoiceFilter(choices=LISTED_STATES, method="in_state")

    class Meta:
        model = Endpoint
        fields = ("subscriber", "host")

    def in_state(self, rows: QuerySet[Endpoint], _name: str, value: str) -> QuerySet[Endpoint]:
        return rows.filter(in_endpoint_state(value))


@extend_schema(tags=["endpoints"])
@extend_schema_view(
    list=extend_schema(summary="List endpoints"),
    retrieve=extend_schema(summary="Get an endpoint", responses={200: EndpointOut, 404: problem("Not yours, or gone")}),
)
class EndpointViews(ListModelMixin, RetrieveModelMixin, EndpointVerbs):
    """Where a subscriber's events go."""

    queryset = Endpoint.objects.filter(deleted_at=None)
    serializer_class = EndpointOut
    permission_classes = [HasScope("deliveries:read", "endpoints:write")]
    filterset_class = EndpointFilter

    def get_queryset(self) -> QuerySet[Endpoint]:
        return narrow(super().get_queryset(), self.request).annotate(read_at=Now())

    @extend_schema(
        summary="Create an endpoint",
        description="The answer tells the signing secret, this once; for v1a the public key.",
        request=EndpointIn,
        parameters=[IDEMPOTENCY_KEY],
        responses={
            201: EndpointWithSecret,
            400: problem("A field is wrong; `errors` says which and why"),
            409: problem("The subscriber has as many endpoints as it may (`too_many_endpoints`)"),
        },
    )
    def create(self, request: Request) -> Response:
        need(request, "delivery.add_endpoint")
        values = self._valid(EndpointIn)
        values["subscriber"] = subscriber_for(request, values.get("subscriber", ""))
        endpoint_rules.clean(values)
        endpoint_rules.check_destination(values["url"], values["subscriber"])
        return self._with_secret(self._create(request, values))

    @idempotent
    def _create(self, _request: Request, values: dict[str, Any]) -> Response:
        made = endpoints.create(actor=self.actor(), **values)
        # Kept for the repeats of this request, so no secret may be in it.
        return Response({"id": str(made.pk), "changed_at": made.secret_changed_at}, status=201)

    @extend_schema(
        summary="Change an endpoint",
        description=(
            "A URL at another address (scheme, host or port) asks whoever may not see the endpoint's secret headers "
            "and client certificate to give them again (`new_origin`), since they would be sent there."
        ),
        request=EndpointChanges,
        responses={200: EndpointOut, 400: problem("A field is wrong")},
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        endpoint = self.get_object()
        changes = self._valid(EndpointChanges, partial=True)
        if "url" in changes:
            endpoint_rules.check_destination(changes["url"], endpoint.subscriber)
        sees = may_see_urls(request)
        return self._out(endpoints.update(endpoint, changes, actor=self.actor(), sees_secrets=sees))

    @extend_schema(
        summary="Remove an endpoint",
        description=(
            "Nothing more is sent to it; what waits is cancelled. Its dead letters are kept, unless `dead_letters` "
            "says that they are to be discarded or moved to another endpoint of the subscriber."
        ),
        parameters=[DeleteIn],
        responses={204: None, 400: problem("The dead letters cannot go there"), 403: problem("Not with this key")},
    )
    def destroy(self, request: Request, pk: str) -> Response:
        need(request, "delivery.delete_endpoint")
        asked = DeleteIn(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        wish = _wish(request, asked.validated_data)
        endpoints.delete(self.get_object(), actor=self.actor(), **wish)
        return Response(status=204)

    @extend_schema(
        summary="Settle the dead letters of a removed endpoint",
        description="What was kept when it was removed is discarded, or moved to another endpoint of the subscriber.",
        request=SettleIn,
        responses={200: SettledOut, 400: problem("They cannot go there"), 409: problem("It was not removed")},
    )
    @action(detail=True, methods=["post"], url_path="settle-dead-letters")
    def settle_dead_letters(self, request: Request, pk: str) -> Response:
        wish = _wish(request, self._valid(SettleIn))
        endpoint = get_object_or_404(narrow(Endpoint.objects.all(), request), pk=pk)
        done = endpoints.settle_dead_letters(endpoint, actor=self.actor(), **wish)
        return Response(SettledOut(done).data)

    @extend_schema(summary="Health: breaker, latency, what waits", responses=HealthOut)
    @action(detail=True, methods=["get"], filterset_class=None, pagination_class=None)
    def health(self, request: Request, pk: str) -> Response:
        endpoint = get_object_or_404(self.get_queryset().select_related("health"), pk=pk)
        return Response(HealthOut(health_of(endpoint)).data)

    @extend_schema(
        summary="Replay events to it",
        description=(
            "Makes new deliveries of old events, at most 10,000 in one call. `warnings` say what waited for it already "
            "or was sent lately, so comes twice; `dry_run` says so beforehand."
        ),
        request=ReplayIn,
        parameters=[IDEMPOTENCY_KEY],
        responses={200: ReplayOut, 202: ReplayOut, 400: problem("Neither events nor a time were named")},
    )
    @action(detail=True, methods=["post"])
    @idempotent
    def replay(self, request: Request, pk: str) -> Response:
        asked, endpoint, now = self._valid(ReplayIn), self.get_object(), clock.now()
        wanted: dict[str, Any] = {name: asked.get(name) for name in ("since", "until", "types")}
        wanted["event_ids"] = [int(text) for text in asked["events"]] if "events" in asked else None
        events = replays.events_for(endpoint, **wanted).filter(pk__gt=int(asked["after"]))
        warnings = replays.already_there(endpoint.pk, events, now).words(now)
        if asked["dry_run"]:
            would = counting.capped(events, replays.MOST)
            seen = {"deliveries": would.number, "deliveries_is_capped": would.is_capped, "next_after": None}
            return Response({**seen, "warnings": warnings, "dry_run": True})
        done = replays.replay(endpoint, actor=self.actor(), reason=asked["reason"], after=int(asked["after"]), **wanted)
        more = None if done.next_after is None else str(done.next_after)
        made = {"deliveries": done.deliveries, "deliveries_is_capped": done.next_after is not None, "next_after": more}
        return Response({**made, "warnings": warnings, "dry_run": False}, status=202)

    @extend_schema(
        summary="Preview a postback",
        description=(
            "Renders the template, with changes not saved yet, for an event. Nothing is sent or stored. Who may not "
            "see the endpoint's URL is shown the parts whose template came with the request; the rest is masked."
        ),
        request=PreviewIn,
        responses={200: PreviewOut, 400: problem("The template or the event does not allow it")},
    )
    @action(detail=True, methods=["post"], url_path="preview-postback", parser_classes=[ExactJSONParser])
    def preview_postback(self, request: Request, pk: str) -> Response:
        need(request, "delivery.view_payload_event")
        endpoint, asked = self.get_object(), self._valid(PreviewIn)
        if "event" in asked:
            lean_event = Event.objects.defer("payload")
            event = get_object_or_404(lean_event, pk=asked["event"], subscriber=endpoint.subscriber)
            envelope = previews.envelope_of(event)
        else:
            envelope = previews.made_up(asked["type"], asked["data"])
        shown = previews.preview(previews.with_changes(endpoint, asked), envelope)
        if not may_see_urls(request):
            shown = previews.hidden(shown, own=asked)
        return Response(PreviewOut(asdict(shown)).data)


def _wish(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """What is to become of the dead letters. To give them up or send them again needs the right for one of them."""
    right = {"discard": "delivery.discard_delivery", "move": "delivery.redrive_delivery"}.get(asked["dead_letters"])
    if right:
        need(request, right)
        if not allows(request, "deliveries:write"):
            words = "To discard or move dead letters a key needs the scope deliveries:write too."
            raise PermissionDenied(words, code="missing_scope")
    return {**asked, "move_to": int(asked["move_to"]) if "move_to" in asked else None}


def health_of(endpoint: Endpoint) -> dict[str, Any]:
    """What is known of an endpoint's health; `endpoint.health` is loaded already."""
    good, total = stats.success_last_day([endpoint.pk], clock.now()).get(endpoint.pk, (0, 0))
    waiting = stats.waiting_at(endpoint.pk)
    return {name: getattr(endpoint.health, name) for name in STORED_HEALTH} | {
        "state": endpoint.state,
        "hold_reason": endpoint.hold_reason,
        "breaker": endpoint.health.breaker_state,
        "threshold": endpoint.breaker_threshold,
        "pace": labels.pace(endpoint.health, clock.now()),
        "waiting": waiting.number,
        "waiting_is_capped": waiting.is_capped,
        "delivered_last_day": good,
        "attempts_last_day": total,
    }
