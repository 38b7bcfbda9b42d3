"""`/schedules/`: tasks submitted again and again; made, changed, paused, and run at once."""

from collections.abc import Callable
from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from kernel import clock
from kernel.api.idempotency import idempotent
from kernel.api.openapi import IDEMPOTENCY_KEY
from kernel.api.pages import CursorPages
from kernel.api.problems import NotFound
from kernel.auth import HasScope, caller_of, may_see_payloads, narrow, need, subscriber_for
from kernel.filters import TrueFalseFilter
from tasks import schedules
from tasks.api.refusals import as_problems
from tasks.api.shapes import KnownFields, ReasonSerializer, TaskSerializer, url_of
from tasks.models import Schedule, ScheduleRun

EVERY = "So many seconds apart, from `starts_at` on; at least 60. Either this or `crontab`."
CRONTAB = "Minute, hour, day, month, weekday, read in `time_zone`. Either this or `every_seconds`."

CATCH_UP: Any = Schedule._meta.get_field("catch_up").choices


class ScheduleSerializer(serializers.ModelSerializer):
    """A schedule. `input` is null for console users who may not see payloads."""

    id = serializers.CharField(read_only=True)
    input = serializers.SerializerMethodField()
    next_times = serializers.SerializerMethodField(help_text="The next five, whether it is paused or not.")
    url = serializers.SerializerMethodField()

    class Meta:
        model = Schedule
        fields = (
            "id",
            "name",
            "kind",
            "input",
            "subscriber",
            "every_seconds",
            "crontab",
            "time_zone",
            "starts_at",
            "catch_up",
            "is_enabled",
            "last_due_at",
            "next_times",
            "created_at",
            "url",
        )
        read_only_fields = fields

    def get_input(self, schedule: Schedule) -> dict[str, Any] | None:
        shown = may_see_payloads(self.context["request"], "tasks.view_payload_task")
        return schedule.input if shown else None

    def get_next_times(self, schedule: Schedule) -> list[str]:
        return [f"{due:%Y-%m-%dT%H:%M:%SZ}" for due in schedules.upcoming(schedule, clock.now())]

    def get_url(self, schedule: Schedule) -> str:
        return url_of(self.context["request"], "schedules", schedule.pk)


class NewScheduleSerializer(KnownFields):
    name = serializers.CharField(max_length=100)
    kind = serializers.CharField(max_length=60)
    input = serializers.JSONField()
    subscriber = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    every_seconds = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=schedules.SHORTEST, help_text=EVERY
    )
    crontab = serializers.CharField(max_length=100, required=False, allow_blank=True, default="", help_text=CRONTAB)
    time_zone = serializers.CharField(max_length=60, required=False, default="UTC")
    starts_at = serializers.DateTimeField(required=False, default=clock.now, help_text="Nothing is due before.")
    catch_up = serializers.ChoiceField(CATCH_UP, required=False, default="latest")
    is_enabled = serializers.BooleanField(required=False, default=True)


class ScheduleChangesSerializer(KnownFields):
    """Only what is given is changed. To change the rhythm's sort, empty the other: `"every_seconds": null`."""

    name = serializers.CharField(max_length=100, required=False)
    kind = serializers.CharField(max_length=60, required=False)
    input = serializers.JSONField(required=False)
    every_seconds = serializers.IntegerField(
        required=False, allow_null=True, min_value=schedules.SHORTEST, help_text=EVERY
    )
    crontab = serializers.CharField(max_length=100, required=False, allow_blank=True, help_text=CRONTAB)
    time_zone = serializers.CharField(max_length=60, required=False)
    starts_at = serializers.DateTimeField(required=False)
    catch_up = serializers.ChoiceField(CATCH_UP, required=False)


class ScheduleRunSerializer(serializers.ModelSerializer):
    """One slot: the task it made, or why it made none."""

    id = serializers.CharField(read_only=True)
    task = serializers.CharField(source="task_id", allow_null=True, read_only=True)

    class Meta:
        model = ScheduleRun
        fields = ("id", "due_at", "task", "is_skipped", "is_by_hand", "reason", "created_at")
        read_only_fields = fields


class LatestSlots(CursorPages):
    ordering = "-due_at"


class ScheduleFilter(django_filters.FilterSet):
    is_enabled = TrueFalseFilter(field_name="is_enabled")

    class Meta:
        model = Schedule
        fields = ("kind", "subscriber", "name")


@extend_schema_view(list=extend_schema(summary="List schedules"), retrieve=extend_schema(summary="Get a schedule"))
class ScheduleViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Tasks submitted again and again, every so often or by a crontab expression."""

    permission_classes = (HasScope("tasks:read", "tasks:write"),)
    serializer_class = ScheduleSerializer
    filterset_class = ScheduleFilter
    queryset = Schedule.objects.all()
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Schedule]:
        need(self.request, "tasks.view_schedule")
        return narrow(Schedule.objects.all(), self.request)

    @extend_schema(
        summary="Create a schedule",
        request=NewScheduleSerializer,
        responses={201: ScheduleSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        """Everything is checked now: input, expression, time zone. One that could never be due is refused."""
        need(request, "tasks.add_schedule")
        asked = NewScheduleSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        values = {**asked.validated_data, "subscriber": subscriber_for(request, asked.validated_data["subscriber"])}
        with as_problems():
            made = schedules.create(values, actor=caller_of(request).name)
        return Response(self.get_serializer(made).data, status=201)

    @extend_schema(summary="Change a schedule", request=ScheduleChangesSerializer, responses=ScheduleSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Another rhythm counts from now on; what it would have been due before is not made."""
        need(request, "tasks.change_schedule")
        asked = ScheduleChangesSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with as_problems():
            changed = schedules.change(self.get_object().pk, asked.validated_data, actor=caller_of(request).name)
        if changed is None:
            raise NotFound("It was deleted meanwhile.")
        return Response(self.get_serializer(changed).data)

    @extend_schema(summary="Delete a schedule", responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Its slots go with it; the tasks they made stay."""
        need(request, "tasks.delete_schedule")
        schedules.delete(self.get_object().pk, actor=caller_of(request).name)
        return Response(status=204)

    @extend_schema(summary="Pause a schedule", request=ReasonSerializer, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """It makes nothing until it is resumed. Pausing twice changes nothing the second time."""
        return self._switch(request, schedules.pause)

    @extend_schema(summary="Resume a schedule", request=ReasonSerializer, responses=ScheduleSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """What was due meanwhile is treated as missed: its `catch_up` decides."""
        return self._switch(request, schedules.resume)

    @extend_schema(
        summary="Run a schedule now",
        request=ReasonSerializer,
        responses={202: TaskSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    @action(detail=True, methods=["post"], url_path="run-now")
    @idempotent
    def run_now(self, request: Request, pk: str) -> Response:
        """One task at once, beside its slots, whether it is paused or not."""
        need(request, "tasks.change_schedule")
        schedule = self.get_object()
        with as_problems("input"):
            task = schedules.run_now(schedule.pk, actor=caller_of(request).name, reason=_reason(request))
        if task is None:
            raise NotFound("It was deleted meanwhile.")
        shown = {"request": request, "may_see_payloads": may_see_payloads(request, "tasks.view_payload_task")}
        return Response(TaskSerializer(task, context=shown).data, status=202)

    @extend_schema(summary="List a schedule's slots", responses=ScheduleRunSerializer(many=True), filters=False)
    @action(detail=True, pagination_class=LatestSlots)
    def runs(self, request: Request, pk: str) -> Response:
        """Latest first: what each slot made, or why it made nothing."""
        rows = ScheduleRun.objects.filter(schedule=self.get_object())
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(ScheduleRunSerializer(page, many=True).data)

    def _switch(self, request: Request, verb: Callable[..., bool]) -> Response:
        need(request, "tasks.change_schedule")
        schedule = self.get_object()
        verb(schedule.pk, actor=caller_of(request).name, reason=_reason(request))
        return Response(self.get_serializer(self.get_object()).data)


def _reason(request: Request) -> str:
    asked = ReasonSerializer(data=request.data)
    asked.is_valid(raise_exception=True)
    return str(asked.validated_data["reason"])
