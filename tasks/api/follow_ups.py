"""`/follow-ups/`: what is made from batches and tasks that have ended, and the verb for what could not be made."""

import django_filters
from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.problems import Conflict
from kernel.auth import HasScope, caller_of, narrow, need
from kernel.filters import WholeNumberFilter
from tasks import follow_ups
from tasks.api.shapes import ReasonSerializer, ThenField, url_of
from tasks.models import Batch, FollowUp
from tasks.states import FollowUpState


class FollowUpSerializer(serializers.ModelSerializer):
    """What is made once its parent has ended: `batches` are the first hundred that it made."""

    id = serializers.CharField(read_only=True)
    parent_batch = serializers.CharField(source="parent_batch_id", allow_null=True, read_only=True)
    parent_task = serializers.CharField(source="parent_task_id", allow_null=True, read_only=True)
    batches = serializers.SerializerMethodField()
    then = ThenField(read_only=True, allow_null=True)
    url = serializers.SerializerMethodField()

    class Meta:
        model = FollowUp
        fields = (
            "id",
            "parent_batch",
            "parent_task",
            "kind",
            "on",
            "then",
            "state",
            "reason",
            "detail",
            "batches",
            "made_count",
            "refused_count",
            "revision",
            "subscriber",
            "created_at",
            "finished_at",
            "url",
        )
        read_only_fields = fields

    def get_batches(self, row: FollowUp) -> list[str]:
        return [str(pk) for pk in made_by(row)]

    def get_url(self, row: FollowUp) -> str:
        return url_of(self.context["request"], "follow-ups", row.pk)


def made_by(row: FollowUp, most: int = 100) -> list[int]:
    """The batches it made, first ones first; read for the whole page at once where it is one of a page."""
    known: list[Batch] | None = getattr(row, "_prefetched_objects_cache", {}).get("batches")
    ids = [batch.pk for batch in known] if known is not None else row.batches.values_list("pk", flat=True)
    return sorted(ids)[:most]


class FollowUpFilter(django_filters.FilterSet):
    batch = WholeNumberFilter(field_name="parent_batch_id")
    task = WholeNumberFilter(field_name="parent_task_id")
    state = django_filters.ChoiceFilter(choices=FollowUpState.choices)

    class Meta:
        model = FollowUp
        fields = ("kind", "subscriber")


@extend_schema_view(list=extend_schema(summary="List follow-ups"), retrieve=extend_schema(summary="Get a follow-up"))
class FollowUpViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Follow-ups, newest first."""

    permission_classes = (HasScope("tasks:read", "tasks:write"),)
    serializer_class = FollowUpSerializer
    filterset_class = FollowUpFilter
    queryset = FollowUp.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[FollowUp]:
        rows = FollowUp.objects.defer("left_out", "remaining").prefetch_related(
            Prefetch("batches", Batch.objects.only("pk", "follow_up_id").order_by("pk"))
        )
        return narrow(rows, self.request)

    @extend_schema(summary="Redrive a follow-up", request=ReasonSerializer, responses={202: FollowUpSerializer})
    @action(detail=True, methods=["post"])
    def redrive(self, request: Request, pk: str) -> Response:
        """Make it after all: one that was refused from where it stopped, an unmet one from what has succeeded."""
        need(request, "tasks.redrive_followup")
        asked = ReasonSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = self.get_object()
        if not follow_ups.redrive([row.pk], actor=caller_of(request).name, reason=asked.validated_data["reason"]):
            raise Conflict(f"It is {row.get_state_display()}: only what was not made can be.", code="wrong_state")
        return Response(self.get_serializer(self.get_object()).data, status=202)
