"""External jobs and transitions in the admin: read-only rows."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import display

from kernel.admin.bases import KeptAdmin
from kernel.admin.lists import RecentValuesFilter
from tasks.models import ExternalJob, Transition
from tasks.reading import labels


@admin.register(ExternalJob)
class ExternalJobAdmin(KeptAdmin):
    list_display = ("job", "task_link", "provider", "state_badge", "provider_status", "noticed", "created")
    list_filter = (
        "state",
        ("provider", RecentValuesFilter),
        ("finished_by", RecentValuesFilter),
        ("created_at", RangeDateTimeFilter),
    )
    list_filter_submit = True
    search_exact = ("job_id", "provider_batch_id")
    search_numbers = ("pk", "task_id")
    search_help_text = "Job id, the provider's batch id, or our task id, exactly"
    fields = (
        "task_link",
        "provider",
        "job_id",
        "item_key",
        "provider_batch_id",
        "attempt",
        "state_badge",
        "provider_status",
        "finished_by",
        "error_text",
        "start_token",
        "created_at",
        "submitted_at",
        "finished_at",
        "last_webhook_at",
        "last_polled_at",
        "next_poll_at",
        "poll_misses",
    )
    readonly_fields = fields

    @display(description="Job", ordering="id")
    def job(self, obj: ExternalJob) -> str:
        return obj.job_id or "(not answered yet)"

    @display(description="Task")
    def task_link(self, obj: ExternalJob) -> str:
        address = reverse("admin:tasks_task_change", args=[obj.task_id])
        return format_html('<a class="underline" href="{}">Task {}</a>', address, obj.task_id)

    @display(description="State", label=labels.JOB_COLOURS)
    def state_badge(self, obj: ExternalJob) -> str:
        return obj.get_state_display()

    @display(description="Noticed by")
    def noticed(self, obj: ExternalJob) -> str:
        return obj.finished_by or "—"

    @display(description="Created", ordering="id")
    def created(self, obj: ExternalJob) -> str:
        return f"{obj.created_at:%Y-%m-%d %H:%M:%S}"


@admin.register(Transition)
class TransitionAdmin(KeptAdmin):
    list_display = ("at", "task_link", "step", "cause", "reason_words", "actor", "attempt")
    list_filter = ("to_state", "cause")
    search_exact = ()
    search_numbers = ("task_id",)
    search_help_text = "Task id"
    ordering = ("-id",)
    fields = ("task_link", "step", "cause", "reason_words", "detail", "actor", "attempt", "at")
    readonly_fields = fields

    @display(description="Task")
    def task_link(self, obj: Transition) -> str:
        address = reverse("admin:tasks_task_change", args=[obj.task_id])
        return format_html('<a class="underline" href="{}">Task {}</a>', address, obj.task_id)

    @display(description="Step")
    def step(self, obj: Transition) -> str:
        return f"{obj.from_state.replace('_', ' ') or 'new'} → {obj.to_state.replace('_', ' ')}"

    @display(description="Reason")
    def reason_words(self, obj: Transition) -> str:
        return obj.reason.replace("_", " ") or "—"
