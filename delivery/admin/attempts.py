"""Attempts in the admin: append-only, read-only, newest first."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import display

from delivery import labels
from delivery.models import Attempt
from delivery.policy.outcomes import Outcome
from kernel.admin.bases import KeptAdmin


class OutcomeFilter(admin.SimpleListFilter):
    """By the last attempt's outcome, in words."""

    title = "last outcome"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(word), labels.outcome(str(word))) for word in Outcome]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        field = "outcome" if queryset.model is Attempt else "last_outcome"
        return queryset.filter(**{field: self.value()}) if self.value() else queryset


@admin.register(Attempt)
class AttemptAdmin(KeptAdmin):
    list_display = ("number", "delivery_id", "endpoint_id", "outcome_words", "started", "took", "address")
    list_filter = (OutcomeFilter,)
    search_numbers = ("pk", "delivery_id")
    search_help_text = "Attempt or delivery id"
    ordering = ("-id",)
    fields = (
        "delivery_link",
        "number",
        "cycle",
        "outcome_words",
        "error",
        "note",
        "request_sent",
        "started_at",
        "phase_words",
        "address",
        "key_ids",
        "is_probe",
        "worker",
        "retry_at",
    )
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        return super().get_queryset(request).defer("response_head")

    @display(description="Outcome")
    def outcome_words(self, obj: Attempt) -> str:
        return labels.outcome(obj.outcome, obj.status_code)

    @display(description="Started", ordering="started_at")
    def started(self, obj: Attempt) -> str:
        return labels.moment(obj.started_at)

    @display(description="Took")
    def took(self, obj: Attempt) -> str:
        return "—" if obj.total_ms is None else labels.milliseconds(obj.total_ms)

    @display(description="Phases")
    def phase_words(self, obj: Attempt) -> str:
        return " · ".join(f"{name} {value}" for name, value in labels.phases(obj)) or "—"

    @display(description="Delivery")
    def delivery_link(self, obj: Attempt) -> str:
        address = reverse("admin:delivery_delivery_change", args=[obj.delivery_id])
        return format_html('<a class="underline" href="{}">Delivery {}</a>', address, obj.delivery_id)
