"""Events in the admin: read-only. The payload is shown, escaped, to those with the permission only."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.decorators import display

from delivery import labels
from delivery.models import Delivery, Event
from kernel import exact_numbers
from kernel.admin.bases import KeptAdmin

SHOWN_CHARACTERS = 20_000
SHOWN_DELIVERIES = 50


class MatchFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "matched"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("unmatched", "unmatched: no endpoint wanted it"), ("queued", "queued")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        unmatched = Q(delivery_count=0)
        return {"unmatched": queryset.filter(unmatched), "queued": queryset.exclude(unmatched)}.get(
            self.value() or "", queryset
        )


@admin.register(Event)
class EventAdmin(KeptAdmin):
    list_display = ("uid", "type", "subscriber", "state_badge", "delivery_count", "created_at")
    list_display_links = ("uid",)
    list_filter = (MatchFilter,)
    search_exact = ("uid", "correlation_id", "type")
    search_help_text = "Event id, correlation id or type, exactly"
    change_form_outer_before_template = "admin/delivery/event_panel.html"
    fields = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        return super().get_queryset(request).defer("payload")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return []

    @display(description="State", label={"queued": "success", "unmatched": "warning"})
    def state_badge(self, obj: Event) -> str:
        return obj.state

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        event = Event.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": _panel(event, request)} if event else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})


def _panel(event: Event, request: HttpRequest) -> dict[str, Any]:
    named = ("id", "state", "attempt_count", "last_outcome", "last_status_code", "is_replay", "endpoint_id")
    rows = Delivery.objects.filter(event=event).select_related("endpoint").order_by("id")
    rows = rows.only(*named, "event_id", "endpoint__name", "endpoint__host")[: SHOWN_DELIVERIES + 1]
    deliveries = [
        {
            "row": row,
            "state": row.get_state_display(),
            "colour": labels.STATE_COLOURS[row.get_state_display()],
            "outcome": labels.outcome(row.last_outcome, row.last_status_code),
            "address": reverse("admin:delivery_delivery_change", args=[row.pk]),
        }
        for row in rows
    ]
    return {
        "event": event,
        "occurred": labels.moment(event.occurred_at),
        "payload": payload_words(event) if request.user.has_perm("delivery.view_payload_event") else None,
        "size": len(event.payload),
        "deliveries": deliveries[:SHOWN_DELIVERIES],
        "has_more": len(deliveries) > SHOWN_DELIVERIES,
    }


def payload_words(event: Event) -> str:
    """The payload laid out for reading; cut where it is very long."""
    text = bytes(event.payload).decode()
    with suppress(ValueError, RecursionError):
        text = exact_numbers.dumps(exact_numbers.loads(text), indent=2, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}\n… {len(text):,} characters in all"
