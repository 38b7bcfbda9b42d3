"""`/tasks/`, `/batches/`, `/kinds/`: submit and be answered at once, look up, cancel, redrive."""

from typing import Any

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.downloads import download
from kernel.api.idempotency import idempotent
from kernel.api.pages import CursorPages
from kernel.api.problems import BadInput, Conflict, NotFound
from kernel.auth import HasScope, caller_of, may_see_payloads, narrow, need, subscriber_for
from kernel.filters import bad_field
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
from tasks.models import Batch, KeptAnswer, Task
from tasks.reading import bodies
from tasks.reading.timeline import entries
from tasks.submit import submit, submit_batch

SCOPES = HasScope("tasks:read", "tasks:write")
PAYLOAD = OpenApiParameter(
    "payload",
    OpenApiTypes.BOOL,
    description=(
        "`true`: with those inputs and results that fit, 1 MiB each and 4 MiB a page, in the order of the list; the "
        "others are null. Without it a list carries their sizes."
    ),
)
JSON_BODY = {(200, "application/json"): OpenApiTypes.ANY}
IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Makes this create repeatable for 24 h."
)


class InBatchPages(CursorPages):
    ordering = "position"


def wants_payloads(request: Request) -> bool | None:
    """What the query says of inputs and results; None where it says nothing. Raises BadInput."""
    word = request.query_params.get("payload")
    if word is None:
        return None
    if word.lower() not in _WORDS:
        words = "payload is true or false."
        raise BadInput(words, errors=[bad_field("payload", words)])
    return _WORDS[word.lower()]


_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class PayloadContext(viewsets.GenericViewSet):
    """Tells serializers whether inputs and results may be shown, and does not even read them where they are not."""

    query_words = frozenset({"payload"})  # beside the filters

    def get_serializer_context(self) -> dict[str, Any]:
        shown = self._may_see_payloads() and wants_payloads(self.request) is not False
        reads = self.action != "list"  # a list shows what `paginate_queryset` has loaded
        return {**super().get_serializer_context(), "may_see_payloads": shown, "reads_bodies": reads}

    def paginate_queryset(self, queryset: Any) -> Any:
        asked = wants_payloads(self.request)
        page = super().paginate_queryset(queryset)
        if asked and page and isinstance(page[0], Task) and self._may_see_payloads():
            bodies.load(page)
        return page

    def _may_see_payloads(self) -> bool:
        return may_see_payloads(self.request, "tasks.view_payload_task")


@extend_schema_view(retrieve=extend_schema(summary="Get a task"))
class TaskViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PayloadContext):
    """Tasks, newest first."""

    permission_classes = (SCOPES,)
    serializer_class = TaskSerializer
    filterset_class = TaskFilter
    queryset = Task.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Task]:
        return narrow(Task.objects.defer(*bodies.NAMES), self.request)

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
        """What happened to the task: its transitions, external jobs, events and their deliveries, oldest first.

        Of transitions and of jobs the latest 1,000 each, and 200 deliveries.
        """
        return Response([entry.shown() for entry in entries(self.get_object())])

    @extend_schema(summary="Get a task's input", responses=JSON_BODY, filters=False)
    @action(detail=True, pagination_class=None)
    def input(self, request: Request, pk: str) -> HttpResponseBase:
        """The task's input alone, streamed, however long it is."""
        return self._download("input")

    @extend_schema(summary="Get a task's result", responses=JSON_BODY, filters=False)
    @action(detail=True, pagination_class=None)
    def result(self, request: Request, pk: str) -> HttpResponseBase:
        """The task's result alone, streamed, however long it is; 404 while there is none."""
        return self._download("result")

    @extend_schema(
        summary="Get what the provider sent",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        filters=False,
    )
    @action(detail=True, pagination_class=None, url_path="kept-answer")
    def kept_answer(self, request: Request, pk: str) -> HttpResponseBase:
        """What the provider sent as the result, byte for byte, where it could not be used as it came; else 404."""
        task = self._with_payload()
        kept = KeptAnswer.objects.filter(job__task=task).order_by("-job_id").only("pk").first()
        if kept is None:
            raise NotFound("Nothing was kept: what the provider sent could be used as it came.", code="nothing_kept")
        name = f"task-{task.pk}-answer.bin"
        spooled = bodies.spooled("kept_answer", kept.pk)
        return download(*spooled, filename=name, content_type="application/octet-stream")

    def _download(self, name: str) -> HttpResponseBase:
        task = self._with_payload()
        if getattr(task, f"{name}_bytes") is None:
            raise NotFound(f"The task is {task.get_state_display()}: it has no {name}.", code=f"no_{name}")
        return download(*bodies.spooled(name, task.pk), filename=f"task-{task.pk}-{name}.json")

    def _with_payload(self) -> Task:
        if not self._may_see_payloads():
            raise PermissionDenied("You may not see inputs and results; ask an administrator for the right.")
        task: Task = self.get_object()
        return task

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
        """Give a dead letter new attempts; its batch opens again. Where only its result is missing, it is fetched."""
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
        return Task.objects.filter(batch=batch).defer(*bodies.NAMES)

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
