"""Schedules in the admin: the input is checked by its kind before it is saved; the slots they made are read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget

from kernel import audit, clock
from kernel.admin.actions import Action, on_one
from kernel.admin.bases import KeptAdmin, ListedFiltersAdmin
from kernel.admin.confirm import actor_of
from kernel.admin.forms import OnlyChangesAdmin
from tasks import kinds, schedules
from tasks.admin.tasks import KindFilter
from tasks.errors import InvalidInput, TaskError
from tasks.models import Schedule, ScheduleRun
from tasks.reading import labels


def _pause(ids: Sequence[int], *, actor: str, reason: str) -> str:
    done = [schedules.pause(pk, actor=actor, reason=reason) for pk in ids]
    return "Paused: it makes nothing until it is resumed." if any(done) else "It was paused already."


def _resume(ids: Sequence[int], *, actor: str, reason: str) -> str:
    done = [schedules.resume(pk, actor=actor, reason=reason) for pk in ids]
    return "Resumed: its catch-up decides about what was due meanwhile." if any(done) else "It was not paused."


def _run_now(ids: Sequence[int], *, actor: str, reason: str) -> str:
    made = [schedules.run_now(pk, actor=actor, reason=reason) for pk in ids]
    names = [f"Task {task.pk}" for task in made if task is not None]
    return f"{', '.join(names)} was submitted." if names else "It was deleted meanwhile. Nothing was submitted."


PAUSE = Action(
    "pause",
    "tasks.change_schedule",
    ("It makes no task until it is resumed; tasks it has made go on.",),
    _pause,
    why_not=lambda schedule: "" if schedule.is_enabled else "It is paused by now.",
)
RESUME = Action(
    "resume",
    "tasks.change_schedule",
    ("What was due while it was paused is treated as missed: its catch-up decides.",),
    _resume,
    why_not=lambda schedule: "It runs by now." if schedule.is_enabled else "",
)
RUN_NOW = Action(
    "run",
    "tasks.change_schedule",
    ("One task is submitted at once, beside its slots, whether it is paused or not.",),
    _run_now,
    why_not=lambda schedule: "",
)


class ScheduleForm(forms.ModelForm):
    """Refuses an input that its kind would refuse when the slot is due, and a rhythm that is never due."""

    kind = forms.ChoiceField(
        choices=[(kind.name, kind.title) for kind in kinds.KINDS.values()], widget=UnfoldAdminSelectWidget
    )

    class Meta:
        model = Schedule
        fields = (
            "name",
            "kind",
            "input",
            "subscriber",
            "priority",
            "expires_after_seconds",
            "unique_key",
            "every_seconds",
            "crontab",
            "time_zone",
            "starts_at",
            "catch_up",
        )
        help_texts = {
            "input": 'JSON with the fields of the kind, e.g. {"trade": "bakery", "place": "Oslo"}; checked on saving.',
            "starts_at": "UTC. Nothing is due before; seconds are counted from here.",
            "catch_up": "What becomes of slots that were missed while nothing ran.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        gone = self.instance.kind if self.instance.pk and not kinds.exists(self.instance.kind) else ""
        if gone and "kind" in self.fields:  # without it the page would quietly offer the first of the others
            field: Any = self.fields["kind"]
            field.choices = [(gone, labels.kind_title(gone)), *field.choices]
        if "time_zone" in self.fields:  # shown read-only
            self.fields["time_zone"].required = False

    def clean_time_zone(self) -> str:
        return self.cleaned_data["time_zone"] or "UTC"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        kind = kinds.find(cleaned.get("kind", ""))
        if kind is None and cleaned.get("is_enabled") and "kind" in cleaned:
            raise ValidationError({"kind": "Its app is gone. Choose another kind, or switch the schedule off."})
        if kind is not None and "input" in cleaned:
            try:
                cleaned["input"] = kind.checked(cleaned["input"])
            except InvalidInput as error:
                raise ValidationError(
                    {"input": [f"{row['field']}: {row['detail']}" for row in error.errors[:10]]}
                ) from None
        if {"every_seconds", "crontab", "time_zone"} <= cleaned.keys():
            try:
                schedules.refuse_bad_rhythm(
                    cleaned["every_seconds"], cleaned["crontab"], cleaned["time_zone"], clock.now()
                )
            except InvalidInput as error:
                raise ValidationError({row["field"]: [row["detail"]] for row in error.errors}) from None
        return cleaned


@admin.register(Schedule)
class ScheduleAdmin(OnlyChangesAdmin, ListedFiltersAdmin):
    form = ScheduleForm
    list_display = ("name", "kind_title", "rhythm", "switch", "last_due_at", "next_time", "catch_up")
    list_filter = ("is_enabled", KindFilter)
    search_fields = ("name", "subscriber")
    list_fullwidth = True
    compressed_fields = True
    warn_unsaved_form = True
    fields = (*ScheduleForm.Meta.fields, "switch", "next_times")
    readonly_fields = ("switch", "next_times")
    actions_detail = ("pause_verb", "resume_verb", "run_verb")

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        if change and schedules.RHYTHM & set(form.changed_data):
            obj.counts_from = clock.now()
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            detail = {"fields": form.changed_data} if change else {}
            audit.record(actor_of(request), "update" if change else "create", "schedule", [obj.pk], detail=detail)

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        schedules.delete(obj.pk, actor=actor_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        with transaction.atomic():
            audit.record(actor_of(request), "delete", "schedule", list(queryset.values_list("pk", flat=True)))
            super().delete_queryset(request, queryset)

    @display(description="Kind")
    def kind_title(self, obj: Schedule) -> str:
        return labels.kind_title(obj.kind)

    @display(description="Due")
    def rhythm(self, obj: Schedule) -> str:
        return labels.rhythm(obj)

    @display(description="Now", label={"runs": "success", "paused": "warning"})
    def switch(self, obj: Schedule) -> str:
        return "runs" if obj.is_enabled else "paused"

    @display(description="Next")
    def next_time(self, obj: Schedule) -> str:
        return next(iter(self._upcoming(obj, 1)), "—") if obj.is_enabled else "—"

    @display(description="Next five times")
    def next_times(self, obj: Schedule) -> str:
        if not obj.pk:
            return "Shown once it is saved."
        return "; ".join(self._upcoming(obj, 5)) or "Never: correct its expression or its time zone."

    def _upcoming(self, obj: Schedule, count: int) -> list[str]:
        return [labels.moment(due) for due in schedules.upcoming(obj, clock.now(), count)]

    def has_pause_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(PAUSE.permission)

    has_resume_permission = has_run_permission = has_pause_permission

    def why_not(self, verb: str, obj: Schedule) -> str:
        return {one.name: one for one in (PAUSE, RESUME, RUN_NOW)}[verb].refusal(obj)

    @action(description="Pause", url_path="pause", permissions=["pause"], icon="pause")
    def pause_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, PAUSE)

    @action(description="Resume", url_path="resume", permissions=["resume"], icon="play_arrow")
    def resume_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, RESUME)

    @action(description="Run now", url_path="run-now", permissions=["run"], icon="bolt")
    def run_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, RUN_NOW, refusals=(TaskError,))


@admin.register(ScheduleRun)
class ScheduleRunAdmin(KeptAdmin):
    list_display = ("slot", "schedule", "what", "created_at")
    list_filter = ("schedule", "is_skipped")
    search_help_text = "Number of the slot"
    list_select_related = ("schedule",)
    fields = ("schedule", "due_at", "what", "created_at")
    readonly_fields = fields

    @display(description="Due", ordering="due_at")
    def slot(self, obj: ScheduleRun) -> str:
        return labels.moment(obj.due_at)

    @display(description="What it made")
    def what(self, obj: ScheduleRun) -> str:
        if obj.task_id:
            address = reverse("admin:tasks_task_change", args=[obj.task_id])
            by_hand = ", by hand" if obj.is_by_hand else ""
            return format_html('<a class="underline" href="{}">Task {}</a>{}', address, obj.task_id, by_hand)
        return obj.reason or ("skipped" if obj.is_skipped else "its task is gone")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("tasks.view_schedule")
