"""Endpoints in the admin: the list, the form, the health panel; the verbs are in `endpoint_verbs`."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from unfold.decorators import display

from delivery import endpoint_rules, endpoints, labels, stats
from delivery.admin.endpoint_verbs import EndpointVerbs
from delivery.admin.forms import EndpointForm
from delivery.admin.health import health_panel
from delivery.models import Endpoint
from delivery.policy.postback import MASK, masked
from delivery.states import EndpointState, in_endpoint_state
from kernel import clock
from kernel.admin.confirm import actor_of
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
class EndpointAdmin(OnlyChangesAdmin, EndpointVerbs):
    form = EndpointForm
    list_fullwidth = True
    list_display = ("label", "subscriber", "state_badge", "breaker_badge", "p95", "success", "wants")
    list_filter = (StateFilter, "health__breaker_state", "request_form", "health__is_slow")
    search_fields = ("name", "host", "subscriber")
    warn_unsaved_form = True
    change_form_outer_before_template = "admin/delivery/endpoint_panel.html"
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
        figures = stats.success_last_day([row.pk for row in rows], clock.now())
        for row in rows:
            row.last_day = figures.get(row.pk, (0, 0))
        changelist.result_list = rows
        return changelist

    @display(description="Endpoint", ordering="id")
    def label(self, obj: Endpoint) -> str:
        unreadable = " · unreadable" if unreadable_fields(obj) else ""
        return format_html(
            "<span><strong>{}</strong><br>{}{}</span>", obj.name or f"Endpoint {obj.pk}", obj.host, unreadable
        )

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
        swap = {"url": "masked_url", "headers": "header_names", "body_template": "masked_body"}
        return [
            (title, {**options, "fields": tuple(swap.get(name, name) for name in options["fields"])})
            for title, options in self.fieldsets
        ]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """A declared field stays in a form whatever the fieldsets say, so the secret ones are taken out by hand."""
        form = super().get_form(request, obj, change, **kwargs)
        if obj is not None and not self._sees_secrets(request):
            for name in ("url", "headers", "body_template"):
                form.base_fields.pop(name, None)
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Endpoint | None = None) -> Any:
        always = ("masked_url", "header_names", "masked_body")
        if obj is None:
            return always
        return (*always, "subscriber", "signature_scheme")

    @staticmethod
    def _sees_secrets(request: HttpRequest) -> bool:
        return request.user.has_perm("delivery.view_secret_endpoint")

    @display(description="URL")
    def masked_url(self, obj: Endpoint) -> str:
        return UNREADABLE if "url" in unreadable_fields(obj) else masked(obj.url)

    @display(description="Body template")
    def masked_body(self, obj: Endpoint) -> str:
        return MASK if obj.body_template else "none"

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
        for words in endpoint_rules.warnings_of(pem, ca, clock.now()):
            messages.warning(request, words)
        if change:
            if values:
                endpoints.update(obj.pk, values, actor=actor, sees_secrets=self._sees_secrets(request))
            return
        made = endpoints.create(actor=actor, **{**values, "url": form.cleaned_data["url"]})
        obj.pk, obj.secret, obj.public_key = made.pk, made.secret, made.public_key

    def response_add(self, request: HttpRequest, obj: Endpoint, post_url_continue: str | None = None) -> HttpResponse:
        return self._shown_once(request, obj, "Endpoint made")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        endpoint = self.get_queryset(request).filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": health_panel(endpoint)} if endpoint else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})
