"""Follow-ups in the admin: read-only rows, and the verb for those that were not made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.decorators import action, display

from kernel.admin.actions import Action, on_one, on_selection
from kernel.admin.bases import KeptAdmin
from tasks import follow_ups
from tasks.admin.tasks import KindFilter
from tasks.models import FollowUp
from tasks.reading import labels

SHOWN = 20


def _redrive(ids: Sequence[int], *, actor: str, reason: str) -> str:
    moved = len(follow_ups.redrive(ids, actor=actor, reason=reason))
    return f"{moved:,} will be made now." if moved else "Its state changed in the meantime. Nothing was done."


REDRIVE = Action(
    "redrive",
    "tasks.redrive_followup",
    ("It is made after all, from what has succeeded; work at a provider is paid for.", "Has the cause been corrected?"),
    _redrive,
    follow_ups.REDRIVEN,
)


@admin.register(FollowUp)
class FollowUpAdmin(KeptAdmin):
    list_display = ("number", "parent_link", "kind_title", "state_badge", "made_count", "made_links", "created_at")
    list_filter = ("state", KindFilter)
    linked_columns = ("parent_batch", "parent_task")
    search_exact = ("subscriber",)
    search_numbers = ("pk", "parent_batch_id", "parent_task_id")
    search_help_text = "Number of the follow-up, of its batch or task; subscriber, exactly"
    fields = (
        "parent_link",
        "kind_title",
        "on",
        "state_badge",
        "reason",
        "detail",
        "made_links",
        "made_count",
        "refused_count",
        "revision",
        "subscriber",
        "created_at",
        "finished_at",
    )
    readonly_fields = fields
    actions = ("redrive_selected",)
    actions_detail = ("redrive_verb",)

    @display(description="Follow-up", ordering="id")
    def number(self, obj: FollowUp) -> str:
        return str(obj.pk)

    @display(description="After")
    def parent_link(self, obj: FollowUp) -> str:
        page, pk = ("batch", obj.parent_batch_id) if obj.parent_batch_id else ("task", obj.parent_task_id)
        address = reverse(f"admin:tasks_{page}_change", args=[pk])
        return format_html('<a class="underline" href="{}">{} {}</a>', address, page.capitalize(), pk)

    @display(description="Kind")
    def kind_title(self, obj: FollowUp) -> str:
        return labels.kind_title(obj.kind)

    @display(description="State", label=labels.FOLLOW_UP_COLOURS)
    def state_badge(self, obj: FollowUp) -> str:
        return obj.get_state_display()

    @display(description="Made")
    def made_links(self, obj: FollowUp) -> str:
        made = obj.batches.order_by("pk").values_list("pk", flat=True)[:SHOWN]
        links = ((reverse("admin:tasks_batch_change", args=[pk]), pk) for pk in made)
        return format_html_join(", ", '<a class="underline" href="{}">Batch {}</a>', links) or "—"

    def has_redrive_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(REDRIVE.permission)

    def why_not(self, verb: str, obj: FollowUp) -> str:
        return REDRIVE.refusal(obj) if verb == REDRIVE.name else ""

    @action(description="Redrive", url_path="redrive", permissions=["redrive"], icon="replay")
    def redrive_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, REDRIVE)

    @action(description="Redrive the selected", permissions=["redrive"])
    def redrive_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return on_selection(self, request, queryset, REDRIVE)
