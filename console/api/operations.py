"""`/operations/`: bulk verbs as tracked things. `dry_run` says what would be touched and changes nothing."""

from collections.abc import Mapping
from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from console.models import Operation, OperationItem
from console.operations import plan
from console.operations.verbs import VERBS, refusal_of
from kernel import clock
from kernel.api.idempotency import idempotent
from kernel.api.problems import Conflict
from kernel.auth import HasScope, Scope, caller_of, is_key, narrow, need


class OperationSerializer(serializers.ModelSerializer):
    id = serializers.CharField(read_only=True)

    class Meta:
        model = Operation
        fields = [
            "id", "verb", "filter", "watermark", "state", "reason", "actor", "rate_per_second", "canary_size",
            "canary_state", "target_count", "done_count", "skipped_count", "failed_count", "detail", "created_at",
            "finished_at",
        ]  # fmt: skip
        read_only_fields = fields


class NewOperationSerializer(serializers.Serializer):
    verb = serializers.ChoiceField(Operation.Verb.choices)
    filter = serializers.DictField(
        help_text='Which rows; {"all": true} for all. Times are absolute or ages such as 24h.'
    )
    reason = serializers.CharField(max_length=300)
    rate = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=1, max_value=10_000)
    canary = serializers.BooleanField(default=False, help_text="Five first; stop if the same failure comes back.")
    dry_run = serializers.BooleanField(default=False)


class PreviewSerializer(serializers.Serializer):
    """The answer to `dry_run`: nothing was changed."""

    dry_run = serializers.BooleanField()
    verb = serializers.ChoiceField(Operation.Verb.choices)
    filter = serializers.DictField()
    target_count = serializers.IntegerField()
    sample_ids = serializers.ListField(child=serializers.CharField())
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Sentences to read before: what would come twice, what is left out."
    )


class OperationItemSerializer(serializers.ModelSerializer):
    id = serializers.CharField(source="object_id")

    class Meta:
        model = OperationItem
        fields = ["id", "outcome", "detail", "at"]


class OperationFilter(django_filters.FilterSet):
    class Meta:
        model = Operation
        fields = ["state", "verb"]


@extend_schema_view(list=extend_schema(summary="List operations"), retrieve=extend_schema(summary="Get an operation"))
class OperationViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Redrive, discard, replay or cancel many rows: frozen set, rate, canary, pause, an outcome for each row."""

    queryset = Operation.objects.all()
    serializer_class = OperationSerializer
    filterset_class = OperationFilter
    permission_classes = [HasScope(Scope.OPERATIONS_WRITE)]
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> Any:
        return narrow(super().get_queryset(), self.request)

    @extend_schema(
        summary="Start an operation, or preview it",
        request=NewOperationSerializer,
        responses={202: OperationSerializer, 200: PreviewSerializer},
    )
    @idempotent
    def create(self, request: Request) -> Response:
        _need_verb(request)
        asked = NewOperationSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        values, caller = asked.validated_data, caller_of(request)
        if values["dry_run"]:
            seen = plan.preview(values["verb"], values["filter"], caller.subscriber, clock.now())
            return Response(
                {
                    "dry_run": True,
                    "verb": values["verb"],
                    "filter": seen.filter,
                    "target_count": seen.target_count,
                    "sample_ids": [str(pk) for pk in seen.sample_ids],
                    "warnings": seen.warnings,
                }
            )
        operation = plan.create(
            values["verb"],
            values["filter"],
            actor=caller.name,
            reason=values["reason"],
            subscriber=caller.subscriber,
            rate=values["rate"],
            canary=values["canary"],
        )
        return Response(OperationSerializer(operation).data, status=202)

    @extend_schema(summary="List its outcomes, row by row", responses=OperationItemSerializer(many=True))
    @action(detail=True, filterset_class=None)
    def items(self, request: Request, pk: str = "") -> Response:
        rows = OperationItem.objects.filter(operation=self.get_object())
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(OperationItemSerializer(page, many=True).data)

    @extend_schema(summary="Pause an operation", request=None, responses=OperationSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str = "") -> Response:
        return self._steer(request, plan.pause)

    @extend_schema(summary="Resume an operation", request=None, responses=OperationSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str = "") -> Response:
        return self._steer(request, plan.resume)

    @extend_schema(summary="Cancel an operation", request=None, responses=OperationSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str = "") -> Response:
        return self._steer(request, plan.cancel)

    def _steer(self, request: Request, verb: Any) -> Response:
        operation = self.get_object()
        need(request, VERBS[operation.verb].permission)
        if operation.state in {Operation.State.COMPLETED, Operation.State.CANCELLED}:
            raise Conflict(f"This operation is {operation.get_state_display()}.", code="wrong_state")
        verb(operation, actor=caller_of(request).name)
        return Response(OperationSerializer(operation).data)


def _need_verb(request: Request) -> None:
    """The right first, before anything that the request says is judged; a key has been judged by its scope."""
    if is_key(request):
        return
    asked = request.data.get("verb") if isinstance(request.data, Mapping) else None
    if words := refusal_of(asked, request.user.has_perm):
        raise PermissionDenied(words)
