"""Starts that were never answered, over the API: name the job, or start again."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.problems import Conflict
from kernel.auth import caller_of, need
from tasks.api.refusals import as_problems
from tasks.api.shapes import ReasonSerializer, TaskSerializer
from tasks.external import naming, unanswered
from tasks.states import Cause


class AdoptSerializer(ReasonSerializer):
    """Which job an unanswered start has begun."""

    job_id = serializers.CharField(max_length=naming.ID_LENGTH, help_text="As the provider names it.")
    item_key = serializers.CharField(
        max_length=naming.ID_LENGTH,
        required=False,
        allow_blank=True,
        default="",
        help_text="Only where one job of the provider's holds many tasks.",
    )


class UnansweredActions(viewsets.GenericViewSet):
    """Mixed into the tasks' views."""

    @extend_schema(summary="Name an unanswered start's job", request=AdoptSerializer, responses={202: TaskSerializer})
    @action(detail=True, methods=["post"])
    def adopt(self, request: Request, pk: str) -> Response:
        """It is this job. Its provider is asked about it, and what it says is applied; 409 where it cannot be taken."""
        need(request, "tasks.redrive_task")
        task = self.get_object()
        asked = _checked(AdoptSerializer, request)
        with as_problems():
            naming.adopt(
                task.pk,
                asked["job_id"],
                item_key=asked["item_key"],
                actor=caller_of(request).name,
                reason=asked["reason"],
                cause=Cause.API,
            )
        return self._now(task.pk)

    @extend_schema(
        summary="Start again what was never answered", request=ReasonSerializer, responses={202: TaskSerializer}
    )
    @action(detail=True, methods=["post"], url_path="start-again")
    def start_again(self, request: Request, pk: str) -> Response:
        """Give an unanswered start up and make a new one. If the first was taken after all, both are paid for."""
        need(request, "tasks.redrive_task")
        task = self.get_object()
        by = {"actor": caller_of(request).name, "reason": _checked(ReasonSerializer, request)["reason"]}
        if not unanswered.start_again([task.pk], cause=Cause.API, **by):
            raise Conflict("No start of this task waits for an answer. Nothing was done.", code="wrong_state")
        return self._now(task.pk)

    def _now(self, pk: int) -> Response:
        return Response(self.get_serializer(self.get_queryset().get(pk=pk)).data, status=202)


def _checked(serializer: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    asked = serializer(data=request.data)
    asked.is_valid(raise_exception=True)
    return asked.validated_data
