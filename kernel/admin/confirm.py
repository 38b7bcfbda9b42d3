"""Verbs in the admin: a button, a page that says what will happen and asks why, a POST that does it.

For admin classes of every app. A verb never acts on GET, asks for its own permission on both, and leaves an entry in
Django's change history. It knows no model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from kernel.auth import name_of

TEMPLATE = "admin/verb_confirmation.html"


class ReasonForm(forms.Form):
    """Why: kept in the log and the change history."""

    reason = forms.CharField(
        max_length=200,
        widget=UnfoldAdminTextInputWidget(
            attrs={"autofocus": True, "placeholder": "e.g. receiver healed, ticket 4711"}
        ),
        help_text="Kept with your name.",
    )


class OptionalReasonForm(ReasonForm):
    reason = forms.CharField(max_length=200, required=False, widget=UnfoldAdminTextInputWidget(), help_text="Optional.")


def actor_of(request: HttpRequest) -> str:
    """How records name a console user."""
    return name_of(request.user)


def ask(
    admin: ModelAdmin,
    request: HttpRequest,
    *,
    title: str,
    says: list[str],
    button: str,
    back: str,
    form: forms.Form,
    is_danger: bool = False,
    hidden: list[tuple[str, str]] | None = None,
) -> TemplateResponse:
    """The confirmation page. `says` are sentences: what will happen, to how many. `hidden` is posted along."""
    context = {
        **admin.admin_site.each_context(request),
        "title": title,
        "opts": admin.model._meta,
        "says": says,
        "button": button,
        "back": back,
        "form": form,
        "is_danger": is_danger,
        "hidden": hidden or [],
    }
    return TemplateResponse(request, TEMPLATE, context)


def note(request: HttpRequest, obj: Model, message: str) -> None:
    """One entry in the object's change history."""
    LogEntry.objects.log_actions(request.user.pk or 0, [obj], CHANGE, change_message=message, single_object=True)


def run_verb(
    admin: ModelAdmin,
    request: HttpRequest,
    obj: Model,
    *,
    title: str,
    says: list[str],
    button: str,
    act: Callable[[str, dict[str, Any]], str | HttpResponse],
    refusals: tuple[type[Exception], ...] = (),
    form_class: type[forms.Form] = ReasonForm,
    is_danger: bool = False,
) -> HttpResponse:
    """GET asks; POST calls `act(actor, cleaned form)`, which returns the sentence for the message, or a page."""
    meta = admin.model._meta
    back = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[obj.pk])
    form = form_class(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return ask(admin, request, title=title, says=says, button=button, back=back, form=form, is_danger=is_danger)
    try:
        done = act(actor_of(request), form.cleaned_data)
    except refusals as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(back)
    reason = form.cleaned_data.get("reason", "")
    note(request, obj, f"{title}: {reason}" if reason else title)
    if isinstance(done, HttpResponse):
        return done
    messages.success(request, done)
    return HttpResponseRedirect(back)
