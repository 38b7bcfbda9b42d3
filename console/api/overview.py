"""`/stats/`, `/dead-letters/`, `/dead-letters/groups/` and `/alerts/`: what an operator's script asks."""

from typing import Any
from urllib.parse import urlencode

import django_filters
from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console import dead_letters
from console.alerts import evaluate, rules
from console.api.dead_letter_shapes import DeadLetterGroups, DeadLetterPage
from console.health import database
from console.live import viewers
from console.models import Alert
from delivery import dead_letters as delivery_side
from delivery import stats as delivery_stats
from delivery.models import lean
from kernel import clock
from kernel.api.pages import CursorPages
from kernel.api.problems import BadInput, Conflict
from kernel.api.queries import bad_field, whole_number
from kernel.auth import HasScope, Scope, allows, caller_of, is_key, need
from kernel.filters import refuse_doubled, refuse_empty, refuse_unknown
from tasks.reading import dead_letters as task_side
from tasks.reading import stats as task_stats

PAGE = CursorPages.page_size


class StatsView(APIView):
    """The one-row summary of deliveries, and the same for tasks. A key bound to a subscriber gets its own figures."""

    permission_classes = [HasScope(Scope.DELIVERIES_READ)]

    @extend_schema(operation_id="stats", summary="Get the summary", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        viewer = viewers.of_request(request)
        with_tasks = viewer is not None and viewer.may(viewers.TASK_FIGURES)
        return Response(summary(caller_of(request).subscriber, with_tasks=with_tasks))


def summary(subscriber: str | None = None, *, with_tasks: bool = True) -> dict[str, Any]:
    """What `/stats/` and `manage.py stats` say; the figures of tasks only to whoever may see them."""
    now = clock.now()
    row = delivery_stats.delivery_summary(subscriber, now=now)
    if with_tasks:
        row["tasks"] = task_stats.task_summary(now, subscriber)
    if subscriber is None:
        if with_tasks:
            row["noticed_last_hour"] = task_stats.noticed_last_hour(now)
        held = database.oldest_snapshot()
        row["oldest_snapshot_seconds"] = round(held.age.total_seconds(), 1) if held else None
        row["warnings"] = [finding.title for finding in rules.held_snapshots(now)]
    return row


class ReadsEitherSide(BasePermission):
    """Whoever may read tasks or deliveries; the view shows the sides they may read."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return allows(request, Scope.DELIVERIES_READ) or allows(request, Scope.TASKS_READ)


SIDE = OpenApiParameter("side", OpenApiTypes.STR, enum=["delivery", "task"], description="Only this side.")
FILTERS = [
    SIDE,
    *(
        OpenApiParameter(name, OpenApiTypes.STR)
        for name in ("subscriber", "endpoint", "outcome", "status_code", "fingerprint", "kind", "error_code", "batch")
    ),
]
LIMIT = OpenApiParameter(
    "limit",
    OpenApiTypes.INT,
    description=f"How many at most, from 1 to {CursorPages.max_page_size}; {PAGE} if not said.",
)
AFTER = OpenApiParameter("after", OpenApiTypes.STR, description="What an earlier answer's `next` said.")


class DeadLettersView(APIView):
    """Dead letters of both sides, newest first. `next` goes on."""

    permission_classes = [ReadsEitherSide]

    @extend_schema(
        operation_id="dead_letters_list",
        summary="List dead letters",
        parameters=[*FILTERS, LIMIT, AFTER],
        responses=DeadLetterPage,
    )
    def get(self, request: Request) -> Response:
        deliveries, tasks = _both_sides(request)
        limit = whole_number("limit", _asked(request).get("limit", str(PAGE)), 1, CursorPages.max_page_size)
        rows, after = dead_letters.page(deliveries, tasks, _cursor(request), limit, for_keys=is_key(request))
        following = None
        if after is not None:
            query = {**request.query_params.dict(), "after": f"{after[0]}-{after[1]}"}
            following = request.build_absolute_uri(f"{request.path}?{urlencode(query)}")
        return Response({"next": following, "results": rows})


class DeadLetterGroupsView(APIView):
    """Dead letters grouped by cause, biggest first, each with what to do."""

    permission_classes = [ReadsEitherSide]

    @extend_schema(
        operation_id="dead_letter_groups",
        summary="List dead letters by cause",
        parameters=FILTERS,
        responses=DeadLetterGroups,
    )
    def get(self, request: Request) -> Response:
        rows, among = dead_letters.group_rows(*_both_sides(request), for_keys=is_key(request))
        return Response({"among_newest": among, "results": rows})


DELIVERY_ONLY = frozenset({"endpoint", "outcome", "status_code"})
TASK_ONLY = frozenset({"kind", "error_code", "batch"})
MAY_BE_EMPTY = frozenset({"subscriber", "error_code", "fingerprint"})  # columns that have empty values: exactly those


def _both_sides(request: Request) -> tuple[QuerySet | None, QuerySet | None]:
    """The dead letters asked for; None for a side the caller may not see, or that a filter of the other leaves out."""
    asked = _asked(request)
    side = asked.get("side", "")
    subscriber = _subscriber(request, asked)
    deliveries = tasks = None
    if side != dead_letters.TASK and not TASK_ONLY & asked.keys() and allows(request, Scope.DELIVERIES_READ):
        deliveries = delivery_side.dead_letters(
            endpoint=_number(asked, "endpoint"),
            subscriber=subscriber,
            outcome=asked.get("outcome"),
            status_code=_number(asked, "status_code"),
            group=asked.get("fingerprint"),
        ).select_related("endpoint", "event")
        deliveries = lean(deliveries.defer("event__payload"), "endpoint__")
    if side != dead_letters.DELIVERY and not DELIVERY_ONLY & asked.keys() and allows(request, Scope.TASKS_READ):
        tasks = task_side.dead_letters(
            subscriber, asked.get("kind"), asked.get("error_code"), _number(asked, "batch"), asked.get("fingerprint")
        )
    return deliveries, tasks


def _asked(request: Request) -> dict[str, str]:
    """The query, judged as a whole: BadInput for a name that is unknown or a value that is empty by accident."""
    known = {parameter.name for parameter in FILTERS} | {"limit", "after"}
    asked = request.query_params.dict()
    refuse_unknown(asked, known)
    refuse_doubled(request.query_params, known)
    refuse_empty(asked.keys() - MAY_BE_EMPTY, asked)
    if asked.get("side", dead_letters.TASK) not in {dead_letters.DELIVERY, dead_letters.TASK}:
        raise BadInput("side must be delivery or task.", errors=[bad_field("side", "Use delivery or task.")])
    return asked


def _subscriber(request: Request, asked: dict[str, str]) -> str | None:
    bound = caller_of(request).subscriber
    if bound is not None and asked.get("subscriber", bound) != bound:
        raise PermissionDenied(f"This key is bound to subscriber {bound!r}.", code="other_subscriber")
    return asked.get("subscriber") if bound is None else bound


def _number(asked: dict[str, str], name: str) -> int | None:
    text = asked.get(name)
    return None if text is None else whole_number(name, text)


def _cursor(request: Request) -> tuple[int, int]:
    first, _, second = request.query_params.get("after", "0-0").partition("-")
    if not (first.isascii() and first.isdigit() and second.isascii() and second.isdigit() and len(first + second) < 37):
        raise BadInput("after is what an earlier answer's `next` said.", code="bad_cursor")
    return int(first), int(second)


class AlertSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)

    class Meta:
        model = Alert
        fields = [
            "id", "rule", "subject", "state", "title", "detail", "advice", "link", "value", "opened_at", "last_seen_at",
            "acknowledged_at", "acknowledged_by", "resolved_at", "resolved_by",
        ]  # fmt: skip
        read_only_fields = fields


class AlertFilter(django_filters.FilterSet):
    class Meta:
        model = Alert
        fields = ["state", "rule", "subject"]


class IsUnbound(BasePermission):
    """Alerts are about the whole house; a key bound to one subscriber has no business there."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return caller_of(request).subscriber is None


class AlertReasonSerializer(serializers.Serializer):
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


@extend_schema_view(list=extend_schema(summary="List alerts"), retrieve=extend_schema(summary="Get an alert"))
class AlertViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """What an operator must know. Acknowledge: somebody looks after it. Resolve: done; it reopens if it is not."""

    queryset = Alert.objects.all()
    serializer_class = AlertSerializer
    filterset_class = AlertFilter
    permission_classes = [HasScope(Scope.DELIVERIES_READ, Scope.OPERATIONS_WRITE), IsUnbound]
    lookup_value_regex = "[0-9]{1,18}"

    @extend_schema(summary="Acknowledge an alert", request=AlertReasonSerializer, responses=AlertSerializer)
    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, pk: str = "") -> Response:
        return self._steer(request, evaluate.acknowledge, "It is acknowledged or resolved already.")

    @extend_schema(summary="Resolve an alert", request=AlertReasonSerializer, responses=AlertSerializer)
    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, pk: str = "") -> Response:
        return self._steer(request, evaluate.resolve, "It is resolved already.")

    def _steer(self, request: Request, verb: Any, otherwise: str) -> Response:
        need(request, "console.change_alert")
        asked = AlertReasonSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = self.get_object()
        moved = verb(row.pk, actor=caller_of(request).name, now=clock.now(), reason=asked.validated_data["reason"])
        if not moved:
            raise Conflict(otherwise, code="wrong_state")
        row.refresh_from_db()
        return Response(AlertSerializer(row).data)
