"""Verbs in the admin: a button, a page that says what will happen and asks why, a POST that does it.

For admin classes of every app. A verb never acts on GET, asks for its own permission on both, and leaves an entry in
Django's change history. It knows no model.

The right and the state are two questions. Without the right a verb is a 403, whatever the state. With it, a button that
makes no sense now is not shown; pressed on a page that was loaded earlier, it says in words what the row is by now.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import unquote
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, reverse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from kernel.auth import name_of

LARGEST_ID = 2**63 - 1  # a bigint
ID_SHOWN = 40  # of an id that is none
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


class OneRowVerbs(ModelAdmin):
    """Base of admins whose pages have verbs. Its `has_<verb>_permission` judge the right only."""

    def why_not(self, verb: str, obj: Any) -> str:
        """The sentence that says why `verb` (redrive, pause …) makes no sense in the state of `obj`, or nothing."""
        return ""

    def get_urls(self) -> list[URLPattern]:
        """An id that no row can have leads where an id goes that no row has, before any verb counts by it."""
        patterns = super().get_urls()
        for pattern in patterns:
            if "object_id" in getattr(pattern.pattern, "converters", ()):
                pattern.callback = self._for_an_id(pattern.callback)
        return patterns

    def _for_an_id(self, view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def judged(request: HttpRequest, object_id: str, **kwargs: Any) -> HttpResponse:
            if not self._can_be_id(unquote(object_id)):
                return self.admin_site.admin_view(self._not_there)(request, object_id)
            return view(request, object_id=object_id, **kwargs)

        return judged

    def _can_be_id(self, text: str) -> bool:
        return text.isascii() and text.isdigit() and int(text[:20]) <= LARGEST_ID

    def _not_there(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._get_obj_does_not_exist_redirect(request, self.opts, object_id[:ID_SHOWN])

    def get_actions_detail(self, request: HttpRequest, object_id: int) -> list[Any]:
        shown = super().get_actions_detail(request, object_id)
        obj = self.get_object(request, str(object_id)) if shown else None
        if obj is None:
            return shown
        front = f"{self.opts.app_label}_{self.opts.model_name}_"
        return [one for one in shown if not self.why_not(_verb_of(one.action_name.removeprefix(front)), obj)]


def _verb_of(method: str) -> str:
    return method.removesuffix("_verb")


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
    admin: OneRowVerbs,
    request: HttpRequest,
    obj: Model,
    *,
    verb: str,
    title: str,
    says: list[str],
    button: str,
    act: Callable[[str, dict[str, Any]], str | HttpResponse],
    refusals: tuple[type[Exception], ...] = (),
    form_class: type[forms.Form] = ReasonForm,
    is_danger: bool = False,
) -> HttpResponse:
    """GET asks; POST calls `act(actor, cleaned form)`, which returns the sentence for the message, or a page.

    The right has been judged. Where `admin.why_not(verb, obj)` says a word, that is the answer, to GET and POST.
    """
    meta = admin.model._meta
    back = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[obj.pk])
    if words := admin.why_not(verb, obj):
        return _nothing_done(request, back, words)
    form = form_class(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        return ask(admin, request, title=title, says=says, button=button, back=back, form=form, is_danger=is_danger)
    try:
        done = act(actor_of(request), form.cleaned_data)
    except refusals as error:
        now = admin.get_object(request, str(obj.pk))  # somebody was quicker: say what it is by now
        return _nothing_done(request, back, (now and admin.why_not(verb, now)) or str(error))
    reason = form.cleaned_data.get("reason", "")
    note(request, obj, f"{title}: {reason}" if reason else title)
    if isinstance(done, HttpResponse):
        return done
    messages.success(request, done)
    return HttpResponseRedirect(back)


def _nothing_done(request: HttpRequest, back: str, words: str) -> HttpResponse:
    messages.warning(request, words if "othing was done" in words else f"{words} Nothing was done.")
    return HttpResponseRedirect(back)
