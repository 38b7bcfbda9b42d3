"""Schedules in the admin: the input is checked by its kind before it is saved; the slots they made are read-only."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget

from kernel import audit
from kernel.admin.bases import KeptAdmin, ListedFiltersAdmin
from kernel.admin.confirm import actor_of
from kernel.admin.forms import OnlyChangesAdmin
from tasks import kinds
from tasks.admin.tasks import KindFilter
from tasks.errors import InvalidInput
from tasks.models import Schedule, ScheduleRun
from tasks.reading import labels


class ScheduleForm(forms.ModelForm):
    """Refuses an input that its kind would refuse when the slot is due."""

    kind = forms.ChoiceField(
        choices=[(kind.name, kind.title) for kind in kinds.KINDS.values()], widget=UnfoldAdminSelectWidget
    )

    class Meta:
        model = Schedule
        fields = ("name", "kind", "input", "subscriber", "every_seconds", "starts_at", "catch_up", "is_enabled")
        help_texts = {
            "input": 'JSON with the fields of the kind, e.g. {"trade": "bakery", "place": "Oslo"}; checked on saving.',
            "starts_at": "UTC. The slots are counted from here.",
            "catch_up": "What becomes of slots that were missed while nothing ran.",
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "kind" in cleaned and "input" in cleaned:
            try:
                cleaned["input"] = kinds.get(cleaned["kind"]).checked(cleaned["input"])
            except InvalidInput as error:
                raise ValidationError(
                    {"input": [f"{row['field']}: {row['detail']}" for row in error.errors[:10]]}
                ) from None
        return cleaned


@admin.register(Schedule)
class ScheduleAdmin(OnlyChangesAdmin, ListedFiltersAdmin):
    form = ScheduleForm
    list_display = ("name", "kind_title", "every", "is_enabled", "last_due_at", "catch_up")
    list_filter = ("is_enabled", KindFilter)
    search_fields = ("name", "subscriber")
    list_fullwidth = True
    compressed_fields = True
    warn_unsaved_form = True

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            detail = {"fields": form.changed_data} if change else {}
            audit.record(actor_of(request), "update" if change else "create", "schedule", [obj.pk], detail=detail)

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        with transaction.atomic():
            audit.record(actor_of(request), "delete", "schedule", [obj.pk], detail={"name": obj.name})
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        with transaction.atomic():
            audit.record(actor_of(request), "delete", "schedule", list(queryset.values_list("pk", flat=True)))
            super().delete_queryset(request, queryset)

    @display(description="Kind")
    def kind_title(self, obj: Schedule) -> str:
        return labels.kind_title(obj.kind)

    @display(description="Every", ordering="every_seconds")
    def every(self, obj: Schedule) -> str:
        for seconds, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
            if obj.every_seconds % seconds == 0:
                number = obj.every_seconds // seconds
                return unit if number == 1 else f"{number} {unit}s"
        return f"{obj.every_seconds} s"


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
            return format_html('<a class="underline" href="{}">Task {}</a>', address, obj.task_id)
        return obj.reason or ("skipped" if obj.is_skipped else "its task is gone")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("tasks.view_schedule")
