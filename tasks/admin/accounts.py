"""Accounts at providers in the admin: the list, a form for each adapter, a page that says how it stands with it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.decorators import display

from kernel import clock
from kernel.admin.confirm import actor_of
from kernel.admin.forms import OnlyChangesAdmin
from kernel.secrets import UndecryptableSecret, key_id
from tasks import accounting, accounts, providers
from tasks.accounting import rules
from tasks.accounting.credentials import has_previous
from tasks.accounts import environment, limits
from tasks.admin.account_forms import NEW, OPTION, AccountForm, form_for
from tasks.admin.account_verbs import AccountVerbs
from tasks.models import ExternalJob, KindPolicy, ProviderAccount
from tasks.providers.base import Provider
from tasks.reading import account_words, labels

UNREADABLE = "unreadable: no master key opens it. Rotate it"


@admin.register(ProviderAccount)
class ProviderAccountAdmin(OnlyChangesAdmin, AccountVerbs):
    form = AccountForm
    list_display = ("name", "provider_title", "state_badge", "kinds", "checked", "made_by")
    list_filter = ("is_paused",)
    search_fields = ("name", "adapter")
    list_fullwidth = True
    compressed_fields = True
    warn_unsaved_form = True
    change_form_outer_before_template = "admin/tasks/account_panel.html"

    # --- the list

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        accounts.available()  # those of the environment are rows only once somebody has asked
        return super().changelist_view(request, extra_context)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The kinds of every account on this page, in one read."""
        changelist = super().get_changelist_instance(request)
        told: dict[str, list[str]] = {}
        for kind, name in KindPolicy.objects.exclude(provider="").order_by("kind").values_list("kind", "provider"):
            told.setdefault(name, []).append(labels.kind_title(kind))
        rows = list(changelist.result_list)
        for row in rows:
            row.kinds_told = told.get(row.name, [])
        changelist.result_list = rows
        return changelist

    @display(description="Provider", ordering="adapter")
    def provider_title(self, obj: ProviderAccount) -> str:
        return _title(obj)

    @display(description="State", label=account_words.COLOURS)
    def state_badge(self, obj: ProviderAccount) -> str:
        return _state(obj)

    @display(description="Kinds")
    def kinds(self, obj: Any) -> str:
        return ", ".join(obj.kinds_told) or "—"

    @display(description="Last check", ordering="checked_at")
    def checked(self, obj: ProviderAccount) -> str:
        return f"{labels.moment(obj.checked_at)}: {obj.check_words}" if obj.checked_at else "never"

    @display(description="Made by")
    def made_by(self, obj: ProviderAccount) -> str:
        return "the environment" if obj.is_from_environment else "a person"

    # --- the form

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """First which provider, since the form is its own."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if _asked(request) is not None:
            return super().add_view(request, form_url, extra_context)
        here = reverse("admin:tasks_provideraccount_add")
        choices = [(rules.title(one), name, f"{here}?adapter={name}") for name, one in providers.adapters().items()]
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": "At which provider?"}
        return TemplateResponse(request, "admin/tasks/choose_adapter.html", {**context, "choices": choices})

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change=change, **{"form": self._form_of(request, obj), **kwargs})

    def _form_of(self, request: HttpRequest, obj: Any) -> type[AccountForm]:
        """Of the account's adapter; without fields where nothing may be changed."""
        adapter = providers.adapter(obj.adapter) if obj is not None else _asked(request)
        if adapter is None or (obj is not None and not self.has_change_permission(request, obj)):
            return AccountForm
        return form_for(adapter, obj, environment.variables_of(obj) if obj is not None else {})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        names = list(self._form_of(request, obj).base_fields)
        options = [name for name in names if name.startswith(OPTION)]
        limits_of = [name for name in names if name in rules.LIMITS]
        first = [name for name in names if name not in (*options, *limits_of)]
        parts = ((None, first), ("Options", options), ("Limits", limits_of))
        return [(title, {"fields": fields}) for title, fields in parts if fields]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        name = _asked(request).adapter  # type: ignore[union-attr]  # add_view has asked for one
        return {} if ProviderAccount.objects.filter(name=name).exists() else {"name": name}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is not None and (obj.retired_at is not None or providers.adapter(obj.adapter) is None):
            return False
        return super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # jobs and callback URLs name it; `retire_verb` ends its use

    def save_model(self, request: HttpRequest, obj: ProviderAccount, form: Any, change: bool) -> None:
        values = form.account_values(form.cleaned_data)
        if not change:
            made = accounting.create(obj.name, form.adapter_class.adapter, values, actor=actor_of(request))
            obj.pk = made.pk
            return
        changed = {"options" if name.startswith(OPTION) else name.removeprefix(NEW) for name in form.changed_data}
        values = {name: value for name, value in values.items() if name in changed}
        accounting.update(obj.name, values, actor=actor_of(request))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = ProviderAccount.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": _panel(row)} if row else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})


def _asked(request: HttpRequest) -> type[Provider] | None:
    return providers.adapter(request.GET.get("adapter", ""))


def _title(row: ProviderAccount) -> str:
    adapter = providers.adapter(row.adapter)
    return rules.title(adapter) if adapter else f"{row.adapter} (its app is gone)"


def _state(row: ProviderAccount) -> str:
    return dict(account_words.AccountState.choices)[account_words.state(row, clock.now())]


def _panel(row: ProviderAccount) -> dict[str, Any]:
    """Everything the page shows, in words."""
    now, state = clock.now(), _state(row)
    jobs = ExternalJob.objects.filter(provider=row.name, state__in=limits.OPEN).count()
    kinds = list(KindPolicy.objects.filter(provider=row.name).order_by("kind").values_list("kind", flat=True))
    until = f"{_id(row, 'previous_secret')}, until {labels.moment(row.previous_secret_until)}"
    return {
        "account": row,
        "title": _title(row),
        "state": state,
        "colour": account_words.COLOURS[state],
        "words": account_words.why_held(row, now) or "New work of its kinds starts there.",
        "api_key": _id(row, "api_key"),
        "webhook_secret": _id(row, "webhook_secret"),
        "previous": until if has_previous(row, now) else "none",
        "address": row.base_url or "the provider's own",
        "kinds": ", ".join(labels.kind_title(kind) for kind in kinds) or "none by name",
        "jobs": f"{jobs:,}",
        "jobs_address": f"{reverse('admin:tasks_externaljob_changelist')}?provider={row.name}",
        "callback": account_words.callback_url(row.name) or "PUBLIC_BASE_URL is not set: nobody can call back",
        "checked": f"{labels.moment(row.checked_at)}: {row.check_words}" if row.checked_at else "never checked",
        "retired": labels.moment(row.retired_at),
    }


def _id(row: ProviderAccount, field: str) -> str:
    """A secret for people: whether there is one, its id, and which variable sets it."""
    variable = environment.variables_of(row).get(field, "")
    by = f", set by {variable}" if variable else ""
    try:
        value = getattr(row, field)
    except UndecryptableSecret:
        return UNREADABLE + by
    return f"set, id {key_id(value)}{by}" if value else f"none{by}"
