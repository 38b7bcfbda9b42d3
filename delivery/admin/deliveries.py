"""Deliveries and attempts in the admin: read-only rows with a timeline, and the verbs redrive, discard and send now."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import AutocompleteSelectFilter, RangeDateTimeFilter
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from delivery import labels, lifecycle
from delivery.admin.attempts import OutcomeFilter
from delivery.admin.events import payload_words
from delivery.dead_letters import id_chunks, redrivable
from delivery.errors import DeliveryError
from delivery.models import Attempt, Delivery, lean
from delivery.policy.outcomes import Outcome
from delivery.states import WAITING_STATES, State
from kernel import clock
from kernel.admin.bases import KeptAdmin
from kernel.admin.confirm import OptionalReasonForm, ReasonForm, actor_of, ask, run_verb
from kernel.counting import count

SHOWN_ATTEMPTS = 50
SELECTED_BUDGET_SECONDS = 20.0
CLOCKS_DIFFER = timedelta(hours=1)
DISCARDABLE = (*WAITING_STATES, State.DEAD_LETTER.value)
ENDPOINT_SHOWN = (
    "name",
    "host",
    "subscriber",
    "paused_at",
    "disabled_at",
    "attention_at",
    "deleted_at",
    "hold_reason",
    "is_held",
    "retry_profile",
    "retry_delays",
    "max_attempts",
)


@admin.register(Delivery)
class DeliveryAdmin(KeptAdmin):
    list_display = ("number", "event_label", "endpoint_label", "state_badge", "outcome_words", "attempts", "when")
    list_filter = (
        "state",
        OutcomeFilter,
        ("endpoint", AutocompleteSelectFilter),
        ("created_at", RangeDateTimeFilter),
        "is_replay",
    )
    list_filter_submit = True
    search_exact = ("event__uid", "event__correlation_id")
    search_help_text = "Delivery id, event id or correlation id, exactly"
    change_form_outer_before_template = "admin/delivery/delivery_panel.html"
    actions = ("redrive_selected", "discard_selected")
    actions_detail = ("redrive_verb", "send_now_verb", "discard_verb")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Without payloads and secrets: each would be read and decrypted for every row."""
        own = tuple(field.name for field in Delivery._meta.concrete_fields)
        event = ("event__uid", "event__type", "event__subscriber", "event__correlation_id", "event__occurred_at")
        endpoint = tuple(f"endpoint__{name}" for name in ENDPOINT_SHOWN)
        return super().get_queryset(request).select_related("event", "endpoint").only(*own, *event, *endpoint)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return []

    # --- the list

    @display(description="Delivery", ordering="id")
    def number(self, obj: Delivery) -> str:
        return str(obj.pk)

    @display(description="Event")
    def event_label(self, obj: Delivery) -> str:
        return format_html("<span><strong>{}</strong><br>{}</span>", obj.event.type, obj.event.uid)

    @display(description="Endpoint")
    def endpoint_label(self, obj: Delivery) -> str:
        return format_html(
            "<span>{}<br>{}</span>", obj.endpoint.name or f"Endpoint {obj.endpoint_id}", obj.endpoint.host
        )

    @display(description="State", label=labels.STATE_COLOURS)
    def state_badge(self, obj: Delivery) -> str:
        return obj.get_state_display()

    @display(description="Last outcome")
    def outcome_words(self, obj: Delivery) -> str:
        return labels.outcome(obj.last_outcome, obj.last_status_code)

    @display(description="Attempts")
    def attempts(self, obj: Delivery) -> int:
        return obj.attempt_count

    @display(description="When")
    def when(self, obj: Delivery) -> str:
        word, at = ("finished", obj.finished_at) if obj.finished_at else ("recorded", obj.created_at)
        return format_html(
            '<span>{}<br><span class="whitespace-nowrap">{}</span></span>', word, f"{at:%Y-%m-%d %H:%M:%S}"
        )

    # --- the page

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        rows = Delivery.objects.select_related("event", "endpoint", "endpoint__health").defer("event__payload")
        delivery = lean(rows, "endpoint__").filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": _panel(delivery, request)} if delivery else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})

    # --- the verbs

    def has_redrive_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.redrive_delivery")

    def has_discard_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.discard_delivery")

    def why_not(self, verb: str, obj: Delivery) -> str:
        if verb == "send_now" and obj.state not in WAITING_STATES:
            return lifecycle.NOT_NOW[obj.state]
        states = {"redrive": (State.DEAD_LETTER.value,), "discard": DISCARDABLE}.get(verb)
        if states is not None and obj.state not in states:
            return f"It is {obj.get_state_display()} by now."
        if verb == "redrive" and obj.endpoint.deleted_at:
            return "Its endpoint was deleted, so it can be discarded, or moved to another from the endpoint's page."
        return ""

    def has_send_now_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.redrive_delivery")

    @action(description="Send now", url_path="send-now", permissions=["send_now"], icon="send")
    def send_now_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def now(ids: list[int], *, actor: str, reason: str) -> int:
            lifecycle.send_now(ids[0], actor=actor, reason=reason)
            return 1

        says = ["It is due at once, without waiting for its back-off.", "Its attempts so far still count."]
        return self._one(request, object_id, now, "Send now:", says, "made due", form_class=OptionalReasonForm)

    @action(
        description="Redrive", url_path="redrive", permissions=["redrive"], icon="replay", variant=ActionVariant.PRIMARY
    )
    def redrive_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        says = ["It is sent again with new attempts and the same event id.", "Has the cause been corrected?"]
        return self._one(request, object_id, lifecycle.redrive, "Redrive", says, "redriven")

    @action(
        description="Discard", url_path="discard", permissions=["discard"], icon="delete", variant=ActionVariant.DANGER
    )
    def discard_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        says = ["It is given up for good: the receiver never gets it.", "Its history stays."]
        return self._one(request, object_id, lifecycle.discard, "Discard", says, "discarded", is_danger=True)

    def _one(
        self, request: HttpRequest, object_id: str, verb: Callable[..., int], name: str, says: list[str], done: str, *,
        is_danger: bool = False, form_class: type[ReasonForm] = ReasonForm,
    ) -> HttpResponse:  # fmt: skip
        delivery = self.get_object(request, object_id)
        if delivery is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)

        def act(actor: str, form: dict[str, Any]) -> str:
            if not verb([delivery.pk], actor=actor, reason=form["reason"]):
                raise DeliveryError("Its state changed in the meantime, or its endpoint was deleted. Nothing was done.")
            return f"{delivery} was {done}."

        title = f"{name} delivery {delivery.pk}"
        return run_verb(
            self, request, delivery, verb=name.rstrip(":").lower().replace(" ", "_"), title=title, says=says,
            button=name.rstrip(":"), act=act, refusals=(DeliveryError,), is_danger=is_danger, form_class=form_class,
        )  # fmt: skip

    @admin.action(description="Redrive selected dead letters", permissions=["redrive"])
    def redrive_selected(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        says = "are sent again with new attempts and the same event ids"
        rows = redrivable(queryset.filter(state=State.DEAD_LETTER))
        return self._many(request, rows, "redrive", lifecycle.redrive, says)

    @admin.action(description="Discard selected deliveries", permissions=["discard"])
    def discard_selected(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        says = "are given up for good; the receivers never get them"
        return self._many(request, queryset.filter(state__in=DISCARDABLE), "discard", lifecycle.discard, says)

    def _many(
        self, request: HttpRequest, rows: QuerySet, name: str, verb: Callable[..., int], says: str
    ) -> HttpResponse | None:
        """Asks with a count; then works through the frozen set in chunks, for at most 20 s."""
        permission = {"redrive": self.has_redrive_permission, "discard": self.has_discard_permission}[name]
        if not permission(request):
            messages.error(request, "You may not do this; ask an administrator for the right.")
            return None
        form = ReasonForm(request.POST if "confirmed" in request.POST else None)
        if "confirmed" not in request.POST or not form.is_valid():
            return self._ask_many(request, rows, name, says, form)
        done, deadline, is_whole = 0, time.monotonic() + SELECTED_BUDGET_SECONDS, True
        for ids in id_chunks(rows):
            if time.monotonic() > deadline:
                is_whole = False
                break
            done += verb(ids, actor=actor_of(request), reason=form.cleaned_data["reason"])
        past = {"redrive": "redriven", "discard": "discarded"}[name]
        rest = "" if is_whole else " There are more: do it again, or use a bulk operation."
        self.message_user(request, f"{done:,} deliveries were {past}.{rest}", messages.SUCCESS)
        return None

    def _ask_many(self, request: HttpRequest, rows: QuerySet, name: str, says: str, form: ReasonForm) -> HttpResponse:
        number, is_estimate = count(rows)
        about = "about " if is_estimate else ""
        kind = "dead letters" if name == "redrive" else "waiting or dead deliveries"
        sentences = [f"{about}{number:,} {kind} {says}.".capitalize(), "Others in your selection are left alone."]
        hidden = [("action", f"{name}_selected"), ("select_across", request.POST.get("select_across", "0"))]
        if request.POST.get("select_across") == "1":
            hidden.append((ACTION_CHECKBOX_NAME, request.POST.getlist(ACTION_CHECKBOX_NAME)[0]))
        else:
            hidden += [(ACTION_CHECKBOX_NAME, pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
        return ask(
            self,
            request,
            title=f"{name.capitalize()} deliveries",
            says=sentences,
            button=f"{name.capitalize()} {number:,}",
            back=request.get_full_path(),
            form=form,
            is_danger=name == "discard",
            hidden=hidden,
        )


def _panel(delivery: Delivery, request: HttpRequest) -> dict[str, Any]:
    """Everything the page shows, in words."""
    now, endpoint = clock.now(), delivery.endpoint
    shows = request.user.has_perm("delivery.view_payload_delivery")
    rows = Attempt.objects.filter(delivery=delivery, started_at__gte=delivery.created_at - CLOCKS_DIFFER)
    if not shows:
        rows = rows.defer("response_head")
    newest = list(rows.order_by("-started_at", "-id")[: SHOWN_ATTEMPTS + 1])
    state = delivery.get_state_display()
    return {
        "delivery": delivery,
        "state": state,
        "colour": labels.STATE_COLOURS[state],
        "next_step": labels.next_step(delivery, endpoint, endpoint.health, now),
        "outcome": labels.outcome(delivery.last_outcome, delivery.last_status_code),
        "endpoint_state": labels.endpoint_state(endpoint),
        "endpoint_colour": labels.ENDPOINT_COLOURS[labels.endpoint_state(endpoint)],
        "breaker": endpoint.health.get_breaker_state_display(),
        "breaker_colour": labels.BREAKER_COLOURS[endpoint.health.get_breaker_state_display()],
        "event_words": f"{delivery.event.type} {delivery.event.uid}",
        "endpoint_words": str(endpoint),
        "attempts_used": f"{delivery.attempt_count} of {endpoint.max_attempts}",
        "recorded": labels.moment(delivery.created_at),
        "finished": labels.moment(delivery.finished_at),
        "redriven": {0: "never", 1: "once"}.get(delivery.redrive_count, f"{delivery.redrive_count} times"),
        "ordering": f"{endpoint.ordering_key} = {delivery.ordering_key}",
        "in_front": lifecycle.in_front_of(delivery) if delivery.awaits_turn else None,
        "endpoint_address": reverse("admin:delivery_endpoint_change", args=[endpoint.pk]),
        "event_address": reverse("admin:delivery_event_change", args=[delivery.event_id]),
        "attempts": [_attempt(row, shows) for row in reversed(newest[:SHOWN_ATTEMPTS])],
        "has_more": len(newest) > SHOWN_ATTEMPTS,
        "shows_payload": shows,
        "payload": payload_words(delivery.event_id)[0]
        if request.user.has_perm("delivery.view_payload_event")
        else None,
    }


def _title(row: Attempt) -> str:
    """e.g. "Attempt 7, after 2 redrives"; those recorded before numbers rose for life may have none."""
    name = f"Attempt {row.number}" if row.number else "Attempt"
    if not row.cycle:
        return name
    return f"{name}, after {row.cycle} redrive{'' if row.cycle == 1 else 's'}"


def _attempt(row: Attempt, shows: bool) -> dict[str, Any]:
    good = row.outcome in (Outcome.DELIVERED, Outcome.DUPLICATE)
    head = bytes(row.response_head) if shows and row.response_head else b""
    return {
        "row": row,
        "title": _title(row),
        "outcome": labels.outcome(row.outcome, row.status_code),
        "explanation": labels.explanation(row.outcome),
        "colour": "success" if good else "warning" if row.retry_at else "danger",
        "phases": labels.phases(row),
        "head": labels.shown_safely(head) if head else "",
        "has_head": row.response_head is not None if shows else True,
    }
