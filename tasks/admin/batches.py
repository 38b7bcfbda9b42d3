"""Batches in the admin: progress at a glance, the way to the live page, and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from kernel.admin.actions import Action, on_one
from kernel.admin.bases import KeptAdmin
from tasks.admin.tasks import KindFilter
from tasks.engine import lifecycle
from tasks.kinds import chaining
from tasks.models import Batch
from tasks.reading import labels
from tasks.states import FINAL_STATES, Cause


def _cancel(ids: Sequence[int], *, actor: str, reason: str) -> str:
    counts = [lifecycle.cancel_batch(pk, actor=actor, reason=reason, cause=Cause.OPERATOR) for pk in ids]
    stopped, waiting = (sum(count.get(word, 0) for count in counts) for word in ("cancelled", "cancelling"))
    asked = f"; {waiting:,} wait for the provider's answer, which decides" if waiting else ""
    return f"{stopped:,} tasks were cancelled{asked}."


BAR = (
    '<span class="flex gap-2 items-center"><span class="bg-base-200 block h-1.5 overflow-hidden rounded-default w-24'
    ' dark:bg-base-700" role="img" aria-label="{0} %"><span class="bg-primary-600 block h-1.5" style="width: {0}%">'
    '</span></span><span class="whitespace-nowrap">{1} of {2}</span></span>'
)
CANCEL = Action(
    "cancel",
    "tasks.cancel_batch",
    ("Every task of it that is not finished is stopped.", "Jobs at a provider: the provider's answer decides."),
    _cancel,
    is_danger=True,
    why_not=lambda batch: "It is completed by now." if batch.is_completed else "",
)


@admin.register(Batch)
class BatchAdmin(KeptAdmin):
    list_display = ("number", "kind_title", "outcome_badge", "bar", "subscriber", "name", "created", "live_link")
    list_filter = (KindFilter, "is_completed", "outcome", ("created_at", RangeDateTimeFilter))
    list_filter_submit = True
    search_exact = ("correlation_id", "reference", "subscriber")
    search_help_text = "Batch id, correlation id, reference or subscriber, exactly"
    change_form_outer_before_template = "admin/tasks/batch_panel.html"
    actions_detail = ("live_verb", "cancel_verb")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return []

    @display(description="Batch", ordering="id")
    def number(self, obj: Batch) -> str:
        return str(obj.pk)

    @display(description="Kind")
    def kind_title(self, obj: Batch) -> str:
        return labels.kind_title(obj.kind)

    @display(description="Outcome", label=labels.OUTCOME_COLOURS)
    def outcome_badge(self, obj: Batch) -> str:
        return labels.OUTCOMES[obj.outcome if obj.is_completed else ""]

    @display(description="Progress")
    def bar(self, obj: Batch) -> str:
        return format_html(
            BAR,
            labels.percent(obj),
            sum(obj.counts.get(state, 0) for state in FINAL_STATES),
            obj.total,
        )

    @display(description="Reference")
    def name(self, obj: Batch) -> str:
        return obj.reference or "—"

    @display(description="Created", ordering="id")
    def created(self, obj: Batch) -> str:
        return f"{obj.created_at:%Y-%m-%d %H:%M:%S}"

    @display(description="Live")
    def live_link(self, obj: Batch) -> str:
        return format_html('<a class="underline" href="{}">watch</a>', live_address(obj))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        batch = Batch.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": _panel(batch)} if batch else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})

    def has_cancel_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(CANCEL.permission)

    def why_not(self, verb: str, obj: Batch) -> str:
        return CANCEL.refusal(obj) if verb == CANCEL.name else ""

    @action(description="Watch live", url_path="watch", icon="monitoring", variant=ActionVariant.PRIMARY)
    def live_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("batch", batch_id=int(object_id))

    @action(
        description="Cancel all", url_path="cancel", permissions=["cancel"], icon="cancel", variant=ActionVariant.DANGER
    )
    def cancel_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, CANCEL)


def live_address(batch: Batch) -> str:
    """The console's page, which moves by itself."""
    return reverse("batch", args=[batch.pk])


def _panel(batch: Batch) -> dict[str, Any]:
    outcome = labels.OUTCOMES[batch.outcome if batch.is_completed else ""]
    tasks = reverse("admin:tasks_task_changelist")
    return {
        "batch": batch,
        "kind": labels.kind_title(batch.kind),
        "outcome": outcome,
        "colour": labels.OUTCOME_COLOURS[outcome],
        "percent": labels.percent(batch),
        "counts": [
            (label, number, colour, f"{tasks}?{urlencode({'batch__id__exact': batch.pk, 'state__exact': state})}")
            for state, label, number, colour in labels.counts(batch)
        ],
        "tasks_address": f"{tasks}?{urlencode({'batch__id__exact': batch.pk})}",
        "live_address": live_address(batch),
        "next_step": _next_step(batch),
        "created": labels.moment(batch.created_at),
        "completed": labels.moment(batch.completed_at),
        "chains": [
            f"manage.py submit --from-batch {batch.pk} --kind {target}"
            for source, target in chaining.LINKS
            if source == batch.kind and batch.counts.get("succeeded")
        ],
    }


def _next_step(batch: Batch) -> str:
    dead = batch.counts.get("dead_letter", 0)
    if not batch.is_completed:
        left = batch.total - sum(batch.counts.get(state, 0) for state in FINAL_STATES)
        return f"{left:,} tasks are still under way. It is completed when every task is finished."
    if dead:
        return f"{dead:,} dead letters wait for you: look at their errors, then redrive them. The batch opens again."
    return "Nothing. Every task is finished."
