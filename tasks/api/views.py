"""`/tasks/`, `/batches/`, `/kinds/`: submit and be answered at once, look up, cancel, redrive."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.idempotency import idempotent
from kernel.api.pages import CursorPages
from kernel.api.problems import Conflict
from kernel.auth import HasScope, caller_of, may_see_payloads, narrow, need, subscriber_for
from tasks.api.filters import BatchFilter, TaskFilter
from tasks.api.refusals import as_problems
from tasks.api.shapes import (
    BatchSerializer,
    CancelledBatchSerializer,
    NewBatchSerializer,
    NewTaskSerializer,
    ReasonSerializer,
    TaskSerializer,
    TimelineEntrySerializer,
)
from tasks.api.typed import NEW_BATCH, NEW_TASK
from tasks.engine import lifecycle
from tasks.models import Batch, Task
from tasks.reading.timeline import entries
from tasks.submit import submit, submit_batch

SCOPES = HasScope("tasks:read", "tasks:write")
PAYLOAD = OpenApiParameter("payload", OpenApiTypes.BOOL, description="`false` leaves inputs and results out of a list.")
IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Makes this create repeatable for 24 h."
)


class InBatchPages(CursorPages):
    ordering = "position"


def leaves_payloads_out(request: Request) -> bool:
    return request.query_params.get("payload", "").lower() in {"0", "false", "no"}


class PayloadContext(viewsets.GenericViewSet):
    """Tells serializers whether inputs and results may be shown, and does not even read them where they are not."""

    query_words = frozenset({"payload"})  # beside the filters

    def get_serializer_context(self) -> dict[str, Any]:
        context = super().get_serializer_context()
        allowed = may_see_payloads(self.request, "tasks.view_payload_task")
        return {**context, "may_see_payloads": allowed and not leaves_payloads_out(self.request)}

    def _lean(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        return tasks.defer("input", "result") if leaves_payloads_out(self.request) else tasks


@extend_schema_view(retrieve=extend_schema(summary="Get a task"))
class TaskViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PayloadContext):
    """Tasks, newest first."""

    permission_classes = (SCOPES,)
    serializer_class = TaskSerializer
    filterset_class = TaskFilter
    queryset = Task.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Task]:
        return self._lean(narrow(Task.objects.all(), self.request))

    @extend_schema(summary="List tasks", parameters=[PAYLOAD])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().list(request, *args, **kwargs)

    @extend_schema(summary="Submit a task", request=NEW_TASK, responses={202: TaskSerializer}, parameters=[IDEMPOTENCY])
    @idempotent
    def create(self, request: Request) -> Response:
        """Submit a task. It is durable when this answers; follow it at `url`, by webhook, or live."""
        asked = _checked(NewTaskSerializer, request)
        with as_problems("input"):
            task = submit(
                asked["kind"],
                asked["input"],
                caller=caller_of(request).name,
                subscriber=subscriber_for(request, asked["subscriber"]),
                run_at=asked["run_at"],
                reference=asked["reference"],
                actor=caller_of(request).name,
            )
        return Response(self.get_serializer(task).data, status=202)

    @extend_schema(summary="All that happened to it", responses=TimelineEntrySerializer(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def timeline(self, request: Request, pk: str) -> Response:
        """All that happened to the task: its transitions, external jobs, events and their deliveries, oldest first."""
        return Response([entry.shown() for entry in entries(self.get_object())])

    @extend_schema(summary="Cancel a task", request=ReasonSerializer, responses={202: TaskSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop the task. A job at a provider decides the race itself: `cancel_requested_at` is set until it answers."""
        need(request, "tasks.cancel_task")
        words = lifecycle.cancel([self.get_object().pk], **_by(request))
        return self._after(int(pk), set(words.values()) <= {"cancelled", "cancelling"}, "cancelled")

    @extend_schema(summary="Redrive a dead letter", request=ReasonSerializer, responses={202: TaskSerializer})
    @action(detail=True, methods=["post"])
    def redrive(self, request: Request, pk: str) -> Response:
        """Give a dead letter new attempts; its batch opens again."""
        need(request, "tasks.redrive_task")
        moved = lifecycle.redrive([self.get_object().pk], **_by(request))
        return self._after(int(pk), bool(moved), "redriven: only dead letters are")

    @extend_schema(summary="Discard a dead letter", request=ReasonSerializer, responses={202: TaskSerializer})
    @action(detail=True, methods=["post"])
    def discard(self, request: Request, pk: str) -> Response:
        """Close a dead letter that nobody wants any more; it becomes cancelled."""
        need(request, "tasks.cancel_task")
        moved = lifecycle.discard([self.get_object().pk], **_by(request))
        return self._after(int(pk), bool(moved), "discarded: only dead letters are")

    def _after(self, pk: int, done: bool, verb: str) -> Response:
        task = get_object_or_404(self.get_queryset(), pk=pk)
        if not done:
            raise Conflict(f"The task is {task.get_state_display()} and cannot be {verb}.", code="wrong_state")
        return Response(self.get_serializer(task).data, status=202)


@extend_schema_view(list=extend_schema(summary="List batches"), retrieve=extend_schema(summary="Get a batch"))
class BatchViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PayloadContext):
    """Batches, newest first."""

    permission_classes = (SCOPES,)
    serializer_class = BatchSerializer
    filterset_class = BatchFilter
    queryset = Batch.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Batch]:
        return narrow(Batch.objects.all(), self.request)

    @extend_schema(
        summary="Submit a batch", request=NEW_BATCH, responses={202: BatchSerializer}, parameters=[IDEMPOTENCY]
    )
    @idempotent
    def create(self, request: Request) -> Response:
        """Submit up to 10,000 tasks, all or none. Errors name the item: `tasks.3.input.place`."""
        asked = _checked(NewBatchSerializer, request)
        with as_problems():
            batch = submit_batch(
                asked["kind"],
                asked["tasks"],
                caller=caller_of(request).name,
                subscriber=subscriber_for(request, asked["subscriber"]),
                reference=asked["reference"],
                actor=caller_of(request).name,
            )
        return Response(self.get_serializer(batch).data, status=202)

    @extend_schema(summary="Cancel a batch", request=ReasonSerializer, responses={202: CancelledBatchSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop every task of the batch that is not finished."""
        need(request, "tasks.cancel_batch")
        counts = lifecycle.cancel_batch(self.get_object().pk, **_by(request))
        words = {word: counts.get(word, 0) for word in ("cancelled", "cancelling", "refused")}
        batch = get_object_or_404(self.get_queryset(), pk=pk)
        return Response({**words, "batch": self.get_serializer(batch).data}, status=202)


class BatchTasksViewSet(mixins.ListModelMixin, PayloadContext):
    """A batch's tasks in the order they were given in."""

    permission_classes = (SCOPES,)
    serializer_class = TaskSerializer
    filterset_class = TaskFilter
    pagination_class = InBatchPages
    queryset = Task.objects.all()

    def get_queryset(self) -> QuerySet[Task]:
        batch = get_object_or_404(narrow(Batch.objects.all(), self.request), pk=self.kwargs["batch"])
        return self._lean(Task.objects.filter(batch=batch))

    @extend_schema(summary="List a batch's tasks", parameters=[PAYLOAD])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().list(request, *args, **kwargs)


def _checked(serializer: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    asked = serializer(data=request.data)
    asked.is_valid(raise_exception=True)
    return asked.validated_data


def _by(request: Request) -> dict[str, Any]:
    """Who acts and why, for a verb."""
    return {"actor": caller_of(request).name, "reason": _checked(ReasonSerializer, request)["reason"]}
