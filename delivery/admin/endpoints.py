"""Endpoints in the admin: the list, the form, the health panel, the verbs as buttons."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from delivery import endpoint_rules, endpoint_secrets, endpoints, labels, stats
from delivery.admin.forms import EndpointForm, ResumeForm, RotationForm, end_secret_form
from delivery.admin.health import health_panel
from delivery.errors import DeliveryError
from delivery.models import Endpoint, EndpointHealth
from delivery.policy.postback import masked
from delivery.states import BreakerState, EndpointState, WaitReason, in_endpoint_state
from kernel.admin.bases import EstimatingPaginator, ListedFiltersAdmin
from kernel.admin.confirm import OptionalReasonForm, ReasonForm, actor_of, run_verb
from kernel.admin.forms import OnlyChangesAdmin
from kernel.secrets import UndecryptableSecret, unreadable_fields

UNREADABLE = "unreadable: no master key opens it"


class StateFilter(admin.SimpleListFilter):
    """By the word that is shown; deleted ones only on request."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(word), str(label)) for word, label in EndpointState.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        if self.value() in EndpointState.values:
            return queryset.filter(in_endpoint_state(str(self.value())))
        on_its_page = request.resolver_match is not None and "object_id" in request.resolver_match.kwargs
        return queryset if on_its_page else queryset.filter(deleted_at=None)


@admin.register(Endpoint)
class EndpointAdmin(OnlyChangesAdmin, ListedFiltersAdmin):
    form = EndpointForm
    paginator = EstimatingPaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0
    show_facets = admin.ShowFacets.NEVER
    list_fullwidth = True
    list_display = ("label", "subscriber", "state_badge", "breaker_badge", "p95", "success", "wants")
    list_filter = (StateFilter, "health__breaker_state", "request_form", "health__is_slow")
    search_fields = ("name", "host", "subscriber")
    warn_unsaved_form = True
    change_form_outer_before_template = "admin/delivery/endpoint_panel.html"
    actions_detail = (
        "resume_verb",
        "enable_verb",
        "pause_verb",
        "test_verb",
        {
            "title": "More",
            "items": ["fix_rate_verb", "lift_throttle_verb", "rotate_verb", "end_secret_verb", "delete_verb"],
        },
    )
    fieldsets = (
        (None, {"fields": ("name", "subscriber", "url", "event_types", "request_form", "signature_scheme")}),
        ("Retries and limits", {"classes": ["tab"], "fields": (
            "retry_profile", "retry_delays", "max_attempts", "timeout_ms", "max_concurrency", "rate_per_minute",
            "rate_burst", "transient_codes", "breaker_threshold", "breaker_cooldown_seconds")}),
        ("Postback", {"classes": ["tab"], "fields": (
            "method", "body_template", "body_content_type", "missing_field", "missing_default")}),
        ("Request and answer", {"classes": ["tab"], "fields": (
            "headers", "body_rule", "ordering_key", "ca_certificate", "new_client_certificate")}),
    )  # fmt: skip

    # --- the list

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        """With every encrypted field: what was not read would not be told as unreadable."""
        return super().get_queryset(request).select_related("health").annotate(read_at=Now())

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The day's success of the endpoints on this page, in one read."""
        changelist = super().get_changelist_instance(request)
        rows = list(changelist.result_list)
        figures = stats.success_last_day([row.pk for row in rows], timezone.now())
        for row in rows:
            row.last_day = figures.get(row.pk, (0, 0))
        changelist.result_list = rows
        return changelist

    @display(description="Endpoint", ordering="id")
    def label(self, obj: Endpoint) -> str:
        unreadable = " · unreadable" if unreadable_fields(obj) else ""
        return format_html("<strong>{}</strong><br>{}{}", obj.name or f"Endpoint {obj.pk}", obj.host, unreadable)

    @display(description="State", label=labels.ENDPOINT_COLOURS)
    def state_badge(self, obj: Endpoint) -> str:
        return labels.endpoint_state(obj)

    @display(description="Breaker", label=labels.BREAKER_COLOURS)
    def breaker_badge(self, obj: Endpoint) -> str:
        return obj.health.get_breaker_state_display()

    @display(description="p95, 24 h", ordering="health__p95_ms")
    def p95(self, obj: Endpoint) -> str:
        return "—" if obj.health.p95_ms is None else labels.milliseconds(obj.health.p95_ms)

    @display(description="Success, 24 h")
    def success(self, obj: Any) -> str:
        good, total = obj.last_day
        return f"{100 * good / total:.1f} % of {total:,}" if total else "—"

    @display(description="Wants")
    def wants(self, obj: Endpoint) -> str:
        return ", ".join(obj.event_types[:3]) + (" …" if len(obj.event_types) > 3 else "") or "all events"

    # --- the form

    def get_fieldsets(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        if obj is None or self._sees_secrets(request):
            return self.fieldsets
        swap = {"url": "masked_url", "headers": "header_names"}
        return [
            (title, {**options, "fields": tuple(swap.get(name, name) for name in options["fields"])})
            for title, options in self.fieldsets
        ]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """A declared field stays in a form whatever the fieldsets say, so the secret ones are taken out by hand."""
        form = super().get_form(request, obj, change, **kwargs)
        if obj is not None and not self._sees_secrets(request):
            for name in ("url", "headers"):
                form.base_fields.pop(name, None)
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        always = ("masked_url", "header_names")
        if obj is None:
            return always
        return (*always, "subscriber", "signature_scheme")

    @staticmethod
    def _sees_secrets(request: HttpRequest) -> bool:
        return request.user.has_perm("delivery.view_secret_endpoint")

    @display(description="URL")
    def masked_url(self, obj: Endpoint) -> str:
        return UNREADABLE if "url" in unreadable_fields(obj) else masked(obj.url)

    @display(description="Headers")
    def header_names(self, obj: Endpoint) -> str:
        try:
            return ", ".join(obj.headers or {}) or "none"
        except UndecryptableSecret:
            return UNREADABLE

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # `delete_verb` marks it deleted and cancels what waits; the row stays

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_deleted = obj is not None and obj.deleted_at is not None
        return not is_deleted and super().has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Endpoint, form: Any, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in form.changed_data if name in form.cleaned_data}
        actor = actor_of(request)
        if pem := values.pop("new_client_certificate", ""):
            values["client_certificate"] = pem
        ca = values.get("ca_certificate", "")
        for words in endpoint_rules.warnings_of(pem, ca, timezone.now()):
            messages.warning(request, words)
        if change:
            if values:
                endpoints.update(obj.pk, values, actor=actor)
            return
        made = endpoints.create(actor=actor, **{**values, "url": form.cleaned_data["url"]})
        obj.pk, obj.secret, obj.public_key = made.pk, made.secret, made.public_key

    def response_add(self, request: HttpRequest, obj: Endpoint, post_url_continue: str | None = None) -> HttpResponse:
        return self._shown_once(request, obj, "Endpoint made")

    def _shown_once(self, request: HttpRequest, endpoint: Endpoint, title: str) -> TemplateResponse:
        """The secret on the answer itself: in no message, cookie, log or redirect."""
        secret = endpoint.public_key or endpoint.secret
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.model._meta,
            "label": "Public key for the receiver" if endpoint.public_key else "Signing secret for the receiver",
            "shown_once": secret,
            "advice": "Give it to the receiver: it verifies our signatures with it (Standard Webhooks).",
            "next": reverse("admin:delivery_endpoint_change", args=[endpoint.pk]),
        }
        return TemplateResponse(request, "admin/shown_once.html", context, headers={"Cache-Control": "no-store"})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        endpoint = self.get_queryset(request).filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": health_panel(endpoint)} if endpoint else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})

    # --- the verbs

    def has_pause_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.pause_endpoint")

    has_resume_permission = has_enable_permission = has_pause_permission

    def has_test_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.change_endpoint")

    def has_fix_rate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.change_endpoint")

    def has_lift_throttle_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.pause_endpoint")

    def has_rotate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.view_secret_endpoint")

    def has_end_secret_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.view_secret_endpoint")

    @staticmethod
    def _earlier(object_id: Any) -> list[endpoint_secrets.Earlier]:
        rows: Any = Endpoint.objects.annotate(read_at=Now()).filter(pk=object_id)
        return [one for row in rows for one in endpoint_secrets.live_earlier(row, row.read_at)]

    def has_remove_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.delete_endpoint")

    def why_not(self, verb: str, obj: Endpoint) -> str:
        if obj.deleted_at:
            return "It is deleted by now."
        if verb == "pause" and obj.paused_at:
            return "It is paused by now."
        if verb == "resume" and obj.disabled_at:
            return "It is disabled by now; enable it instead."
        if verb == "resume" and not obj.is_held and not self._waits(obj):
            return "It is active by now."
        if verb == "enable" and not obj.disabled_at:
            return "It is enabled by now."
        if verb in ("fix_rate", "lift_throttle"):
            return self._why_no_pace(verb, obj)
        if verb == "end_secret" and not self._earlier(obj.pk):
            return "No earlier secret signs by now; only the standing one does."
        return ""

    @staticmethod
    def _waits(obj: Endpoint) -> bool:
        """Its breaker is not closed, or it was asked to wait: Resume begins anew there, too. Of no use where its
        settings cannot be read."""
        waits = ~Q(breaker_state=BreakerState.CLOSED) | Q(throttled_until__gt=timezone.now())
        rows = EndpointHealth.objects.filter(waits, pk=obj.pk)
        return rows.exclude(wait_reason=WaitReason.UNUSABLE).exists()

    @staticmethod
    def _why_no_pace(verb: str, obj: Endpoint) -> str:
        health = EndpointHealth.objects.filter(pk=obj.pk).first()
        if health is not None and health.pace_per_second is not None:
            return ""
        if verb == "fix_rate":
            return "No pace is learned by now: it is sent to as fast as its own limits allow."
        waits = health is not None and health.throttled_until is not None and health.throttled_until > timezone.now()
        return "" if waits else "Nothing throttles it by now."

    def _run(self, request: HttpRequest, object_id: str, **how: Any) -> HttpResponse:
        endpoint = self.get_object(request, object_id)
        if endpoint is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        title, verb = how.pop("title"), how.pop("verb")
        return run_verb(
            self, request, endpoint, verb=verb, title=f"{title} {endpoint}", refusals=(DeliveryError,), **how
        )

    @action(description="Pause", url_path="pause", permissions=["pause"], icon="pause")
    def pause_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.pause(int(object_id), actor=actor, reason=form["reason"])
            return "Paused. Deliveries are held, and go out when you resume it."

        says = ["Nothing is sent to it until you resume it.", "Its deliveries are held and lost by nobody."]
        return self._run(
            request, object_id, verb="pause", title="Pause", says=says, button="Pause", act=act, form_class=ReasonForm
        )

    @action(
        description="Resume",
        url_path="resume",
        permissions=["resume"],
        icon="play_arrow",
        variant=ActionVariant.PRIMARY,
    )
    def resume_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            redrive = form["redrive_refused"]
            endpoints.resume(int(object_id), actor=actor, reason=form["reason"], redrive_refused=redrive)
            return "Resumed. What was held is being sent."

        waiting = stats.waiting_at([int(object_id)])[int(object_id)]
        says = [
            f"{waiting:,} held deliveries will be sent, at most as fast as its limits allow.",
            "Breaker, failure counters, a wait that the receiver asked for and the learned pace begin anew.",
        ]
        form = ResumeForm
        return self._run(
            request, object_id, verb="resume", title="Resume", says=says, button="Resume", act=act, form_class=form
        )

    @action(
        description="Enable",
        url_path="enable",
        permissions=["enable"],
        icon="power_settings_new",
        variant=ActionVariant.PRIMARY,
    )
    def enable_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.enable(int(object_id), actor=actor, reason=form["reason"])
            return "Enabled. What was held is being sent, unless it is paused as well."

        says = ["It was disabled because its receiver said that it is gone, or by policy.", "Is its URL right by now?"]
        return self._run(request, object_id, verb="enable", title="Enable", says=says, button="Enable", act=act)

    @action(description="Send a test", url_path="test", permissions=["test"], icon="send")
    def test_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str | HttpResponse:
            sent = endpoints.send_test(int(object_id), actor=actor, reason=form["reason"])
            address = reverse("admin:delivery_delivery_change", args=[sent.pk])
            told = format_html('A test is on its way: <a class="underline" href="{}">{}</a>.', address, sent)
            if not request.user.has_perm("delivery.view_delivery"):
                return told
            messages.success(request, told)
            return HttpResponseRedirect(address)  # its page shows what comes of it

        says = [
            "One event “endpoint.test” is sent to this endpoint only.",
            "It goes out at once, whatever holds the endpoint; its page shows the answer.",
        ]
        form = OptionalReasonForm
        return self._run(
            request, object_id, verb="test", title="Test", says=says, button="Send it", act=act, form_class=form
        )

    @action(description="Fix its rate", url_path="fix-rate", permissions=["fix_rate"], icon="speed")
    def fix_rate_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            fixed = endpoints.fix_rate(int(object_id), actor=actor, reason=form["reason"])
            return f"Its limit is {fixed.rate_per_minute} a minute from now on."

        says = [self._pace_words(object_id), "That becomes its own limit, until somebody changes it in the form."]
        form = OptionalReasonForm
        how = {"verb": "fix_rate", "title": "Fix the rate of", "button": "Fix"}
        return self._run(request, object_id, says=says, act=act, form_class=form, **how)

    @action(description="Lift the throttle", url_path="lift-throttle", permissions=["lift_throttle"], icon="lock_open")
    def lift_throttle_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.lift_throttle(int(object_id), actor=actor, reason=form["reason"])
            return "Lifted. It is sent to as fast as its own limits allow."

        says = [
            self._pace_words(object_id),
            "The wait that the receiver asked for and the learned pace are forgotten. If it still limits us, it will "
            "say so again.",
        ]
        form = OptionalReasonForm
        how = {"verb": "lift_throttle", "title": "Lift the throttle of", "button": "Lift"}
        return self._run(request, object_id, says=says, act=act, form_class=form, **how)

    @staticmethod
    def _pace_words(object_id: str) -> str:
        health, now = EndpointHealth.objects.filter(endpoint_id=int(object_id)).first(), timezone.now()
        if health is None:
            return "Nothing holds us back."
        return labels.pace(health, now) or labels.why_held(Endpoint(), health, now) or "Nothing holds us back."

    @action(description="Rotate its secret", url_path="rotate", permissions=["rotate"], icon="key")
    def rotate_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> HttpResponse:
            overlap = endpoints.SECRET_OVERLAP if form["overlap"] else endpoints.SECRET_OVERLAP * 0
            said = {"reason": form["reason"], "token": form["token"]}
            rotated = endpoints.rotate_secret(int(object_id), actor=actor, overlap=overlap, **said)
            return self._shown_once(request, rotated, "Secret rotated")

        says = [
            "A new signing secret is made and shown once.",
            "During the overlap both sign; earlier secrets keep the time that was promised for them.",
        ]
        form = RotationForm
        return self._run(
            request,
            object_id,
            verb="rotate",
            title="Rotate secret of",
            says=says,
            button="Rotate",
            act=act,
            form_class=form,
        )

    @action(description="End a secret", url_path="end-secret", permissions=["end_secret"], icon="key_off")
    def end_secret_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.end_secret(int(object_id), form["secret"], actor=actor, reason=form["reason"])
            return f"Secret {form['secret']} has ended; it signs nothing more."

        says = [
            "The secret you choose signs no more, at once. A receiver that has only this one refuses our calls.",
            "The standing secret cannot be ended: rotate it, and switch the overlap off.",
        ]
        form = end_secret_form(self._earlier(object_id))
        how = {
            "verb": "end_secret",
            "title": "End a secret of",
            "button": "End it",
        }
        return self._run(request, object_id, says=says, act=act, form_class=form, is_danger=True, **how)

    @action(
        description="Delete", url_path="remove", permissions=["remove"], icon="delete", variant=ActionVariant.DANGER
    )
    def delete_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            cancelled = endpoints.delete(int(object_id), actor=actor, reason=form["reason"])
            return f"Deleted; {cancelled:,} waiting deliveries were cancelled. Its history stays."

        waiting = stats.waiting_at([int(object_id)])[int(object_id)]
        says = [
            f"{waiting:,} waiting deliveries will be cancelled, and nothing is sent to it any more.",
            "Its past deliveries stay. This cannot be undone; pause it instead if you are not sure.",
        ]
        return self._run(
            request, object_id, verb="remove", title="Delete", says=says, button="Delete it", act=act, is_danger=True
        )
