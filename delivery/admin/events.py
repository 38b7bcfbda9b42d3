"""Events in the admin: read-only. The payload is shown, escaped, to those with the permission only."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib import admin
from django.db.models import BinaryField, Case, F, Q, QuerySet, When
from django.db.models.functions import Substr
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold.decorators import display

from delivery import labels
from delivery.models import Delivery, Event
from kernel import exact_numbers
from kernel.admin.bases import KeptAdmin
from kernel.counting import OctetLength

SHOWN_CHARACTERS = 20_000
SHOWN_BYTES = 4 * SHOWN_CHARACTERS  # a character of UTF-8 has at most four
LAID_OUT_BYTES = 1024 * 1024  # with line breaks and blanks; what is larger is shown as it is sent
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
        event = self.get_queryset(request).filter(pk=object_id).first() if object_id.isdigit() else None
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
    words, size = payload_words(event.pk, shows=request.user.has_perm("delivery.view_payload_event"))
    return {
        "event": event,
        "occurred": labels.moment(event.occurred_at),
        "payload": words,
        "size": size,
        "deliveries": deliveries[:SHOWN_DELIVERIES],
        "has_more": len(deliveries) > SHOWN_DELIVERIES,
    }


def payload_words(event_id: int, *, shows: bool = True) -> tuple[str | None, int]:
    """The payload laid out for reading, cut where it is very long, and its size. None for who may not see it.

    What is too large to be laid out is read no further than it is shown.
    """
    rows = Event.objects.filter(pk=event_id).annotate(size=OctetLength("payload"))
    if not shows:
        return None, rows.values_list("size", flat=True).get()
    whole = Case(When(size__lte=LAID_OUT_BYTES, then=F("payload")))
    start = Substr("payload", 1, SHOWN_BYTES, output_field=BinaryField())
    size, payload, head = rows.values_list("size", whole, Case(When(size__gt=LAID_OUT_BYTES, then=start))).get()
    if payload is None:
        return f"{_text(head)[:SHOWN_CHARACTERS]}\n… {size:,} bytes in all", size
    text = _text(payload)
    with suppress(ValueError, RecursionError):
        text = exact_numbers.dumps(exact_numbers.loads(text), indent=2, ensure_ascii=False)
    if len(text) <= SHOWN_CHARACTERS:
        return text, size
    return f"{text[:SHOWN_CHARACTERS]}\n… {len(text):,} characters in all", size


def _text(raw: Any) -> str:
    return bytes(raw).decode(errors="ignore")  # the last character may have been cut
