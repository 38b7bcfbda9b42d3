"""The inbox in the admin: what came in, what we made of it and why, and replay. Bodies only with the permission."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from kernel.admin.bases import KeptAdmin
from kernel.admin.confirm import run_verb
from tasks import providers
from tasks.states import Reason
from webhooks import checks, inbox, labels, refusals
from webhooks.errors import CannotReplay
from webhooks.models import InboundEvent, InboundVerdict, Refusal, RefusedCall

RESULTS_SHOWN = 200


class ReasonFilter(admin.SimpleListFilter):
    """By reason word, in words: of ignored events and of refused calls."""

    title = "reason"
    parameter_name = "why"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word.value, word.value.replace("_", " ")) for word in (*Reason, *Refusal)]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        chosen = self.value()
        if not chosen:
            return queryset
        field = "reason" if chosen in Reason.values else "verdict_reason"
        return queryset.filter(**{field: chosen})


class ProviderFilter(admin.SimpleListFilter):
    """The providers that are set up: nothing is read for it."""

    title = "provider"
    parameter_name = "provider"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in providers.available()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(provider=self.value()) if self.value() else queryset


@admin.register(InboundEvent)
class InboundEventAdmin(KeptAdmin):
    list_before_template = "admin/webhooks/sources.html"
    list_display = ("number", "source", "verdict_badge", "outcome_badge", "why", "job_count", "repeated", "received")
    list_filter = ("verdict", "outcome", ReasonFilter, ProviderFilter, ("received_at", RangeDateTimeFilter))
    list_filter_submit = True
    search_exact = ("correlation_id",)
    search_help_text = "Event id, job id, webhook-id or correlation id, exactly"
    change_form_outer_before_template = "admin/webhooks/inbound_panel.html"
    actions_detail = ("replay_verb",)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {**(extra_context or {}), "sources": _sources()})

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundEvent]:
        return super().get_queryset(request).defer("body", "headers")

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """By job first (one index look-up), then by what the event itself is called."""
        term = search_term.strip()
        if not term:
            return queryset, False
        of_job = inbox.of_job(term)
        if of_job:
            return queryset.filter(pk__in=of_job), False
        named = list(
            queryset.filter(
                source__in=labels.known_sources(), dedupe_key=inbox.event_key(term), verdict=InboundVerdict.VERIFIED
            ).values_list("pk", flat=True)
        )
        if not named:
            return super().get_search_results(request, queryset, term)
        others = queryset.filter(is_id_reused=True, dedupe_key__startswith=inbox.reused_prefix(term))
        return queryset.filter(pk__in=[*named, *others.values_list("pk", flat=True)[: inbox.NAMED_ALIKE]]), False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return []

    @display(description="Event", ordering="id")
    def number(self, obj: InboundEvent) -> str:
        return str(obj.pk)

    @display(description="Verdict", label=labels.VERDICT_COLOURS)
    def verdict_badge(self, obj: InboundEvent) -> str:
        return obj.get_verdict_display()

    @display(description="Outcome", label=labels.OUTCOME_COLOURS)
    def outcome_badge(self, obj: InboundEvent) -> str:
        return labels.outcome(obj)

    @display(description="Why")
    def why(self, obj: InboundEvent) -> str:
        return labels.why(obj)

    @display(description="Jobs")
    def job_count(self, obj: InboundEvent) -> int:
        return len(obj.results)

    @display(description="Repeated", ordering="duplicate_count")
    def repeated(self, obj: InboundEvent) -> str:
        return f"{obj.duplicate_count} ×" if obj.duplicate_count else "—"

    @display(description="Received", ordering="id")
    def received(self, obj: InboundEvent) -> str:
        return f"{obj.received_at:%Y-%m-%d %H:%M:%S}"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        event = InboundEvent.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": _panel(event, request)} if event else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})

    def has_replay_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("webhooks.replay_inboundevent")

    def why_not(self, verb: str, obj: InboundEvent) -> str:
        return inbox.UNTRUSTED if obj.verdict == InboundVerdict.REFUSED else ""

    @action(
        description="Replay", url_path="replay", permissions=["replay"], icon="replay", variant=ActionVariant.PRIMARY
    )
    def replay_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not request.user.has_perm("webhooks.replay_inboundevent"):
            raise PermissionDenied
        event = self.get_object(request, object_id)
        if event is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)

        def act(actor: str, form: dict[str, Any]) -> str:
            judged, results = inbox.replay(event.pk, actor=actor, reason=form["reason"])
            return labels.replayed(judged, results)

        says = ["It is judged once more, by its stored verdict.", "What it has done already is not done a second time."]
        return run_verb(
            self,
            request,
            event,
            verb="replay",
            title=f"Replay inbound event {event.pk}",
            says=says,
            button="Replay",
            act=act,
            refusals=(CannotReplay,),
        )


def _panel(event: InboundEvent, request: HttpRequest) -> dict[str, Any]:
    """Everything the page shows, in words."""
    shows = request.user.has_perm("webhooks.view_payload_inboundevent")
    return {
        "event": event,
        "verdict": event.get_verdict_display(),
        "verdict_colour": labels.VERDICT_COLOURS[event.get_verdict_display()],
        "outcome": labels.outcome(event),
        "outcome_colour": labels.OUTCOME_COLOURS[labels.outcome(event)],
        "why": labels.why(event),
        "detail": event.verdict_detail,
        "next_step": labels.next_step(event),
        "received": labels.moment(event.received_at),
        "judged": labels.moment(event.judged_at),
        "parked": labels.moment(event.parked_until),
        "is_id_reused": event.is_id_reused,
        "repeated": f"{event.duplicate_count} times" if event.duplicate_count else "never",
        "size": f"{event.body_bytes or len(event.body):,} bytes",
        "results": [_result(row) for row in event.results[:RESULTS_SHOWN]],
        "more": max(0, len(event.results) - RESULTS_SHOWN),
        "shows_payload": shows,
        "headers": sorted(event.headers.items()) if shows else [],
        "body": labels.body(bytes(event.body)) if shows else "",
    }


def _result(row: dict[str, Any]) -> dict[str, Any]:
    task = row.get("task_id")
    return {
        "job": row["job_id"] + (f" / {row['item_key']}" if row.get("item_key") else ""),
        "status": row["status"],
        "colour": labels.OUTCOME_COLOURS.get(row["status"], "default"),
        "reason": labels.reason(row.get("reason", "")),
        "task": task,
        "address": reverse("admin:tasks_task_change", args=[task]) if task else "",
    }


def _sources() -> dict[str, Any]:
    """What stands above the lists: secrets that cannot be used, and what today's refused calls take."""
    told = (*checks.secret_faults().values(), *checks.secret_doubts().values())
    faults = [words for found in told for words in found]
    return {"faults": faults, "budgets": [labels.budget(row) for row in refusals.budgets()]}


@admin.register(RefusedCall)
class RefusedCallAdmin(KeptAdmin):
    list_before_template = "admin/webhooks/sources.html"
    list_display = ("hour", "source", "why", "count", "stored")
    list_filter = ("reason", "source")
    search_help_text = "Number of the row"
    ordering = ("-hour", "source")
    fields = ("hour", "source", "why", "count")
    readonly_fields = fields

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {**(extra_context or {}), "sources": _sources()})

    @display(description="Why")
    def why(self, obj: RefusedCall) -> str:
        return labels.reason(obj.reason)

    @display(description="Stored calls")
    def stored(self, obj: RefusedCall) -> str:
        address = reverse("admin:webhooks_inboundevent_changelist")
        return format_html('<a class="underline" href="{}?why={}">look</a>', address, obj.reason)
