"""Verbs on one row or on a selection: permission, question, reason, verb, entry in the change history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin

from kernel.admin.confirm import OneRowVerbs, ReasonForm, actor_of, ask, run_verb

MAX_SELECTED = 1_000
PAST = {"redrive": "redriven", "cancel": "cancelled", "discard": "discarded"}
CHUNK = 500
Run = Callable[..., str]


@dataclass(frozen=True)
class Action:
    """`run(ids, actor=, reason=)` does it and returns the sentence for the message. `states`: where it makes sense.

    `why_not(row)` says why it makes none, for rows whose state is more than a word.
    """

    name: str
    permission: str
    says: tuple[str, ...]
    run: Run
    states: tuple[str, ...] = ()
    is_danger: bool = False
    why_not: Callable[[Any], str] | None = None

    @property
    def label(self) -> str:
        return self.name.capitalize()

    def refusal(self, row: Any) -> str:
        """Why it makes no sense for this row now, in words; empty where it does."""
        if self.why_not is not None:
            return self.why_not(row)
        return "" if not self.states or row.state in self.states else f"It is {row.get_state_display()} by now."


def require(request: HttpRequest, verb: Action) -> None:
    """Asked again inside the verb: a hidden button is no protection."""
    if not request.user.has_perm(verb.permission):
        raise PermissionDenied


def on_one(
    admin: OneRowVerbs, request: HttpRequest, object_id: str, verb: Action, refusals: tuple[type[Exception], ...] = ()
) -> HttpResponse:
    """GET asks, POST does it."""
    require(request, verb)
    obj = admin.get_object(request, object_id)
    if obj is None:
        return admin._get_obj_does_not_exist_redirect(request, admin.opts, object_id)

    def act(actor: str, form: dict[str, Any]) -> str:
        return verb.run([obj.pk], actor=actor, reason=form["reason"])

    return run_verb(
        admin,
        request,
        obj,
        verb=verb.name,
        title=f"{verb.label} {obj}",
        says=list(verb.says),
        button=verb.label,
        act=act,
        refusals=refusals,
        is_danger=verb.is_danger,
    )


def on_selection(admin: ModelAdmin, request: HttpRequest, queryset: QuerySet, verb: Action) -> HttpResponse | None:
    """The rows that were ticked, up to a thousand, and of them those in a state where the verb makes sense."""
    require(request, verb)
    ids = list(queryset.filter(state__in=verb.states).order_by("pk").values_list("pk", flat=True)[: MAX_SELECTED + 1])
    if len(ids) > MAX_SELECTED:
        words = f"More than {MAX_SELECTED:,} rows: use a bulk operation, which shows a preview and its progress."
        admin.message_user(request, words, messages.ERROR)
        return None
    if not ids:
        states = ", ".join(state.replace("_", " ") for state in verb.states)
        words = f"None of these can be {PAST.get(verb.name, verb.name)}: only {states} can."
        admin.message_user(request, words, messages.WARNING)
        return None
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if "confirmed" not in request.POST or not form.is_valid():
        return _ask(admin, request, verb, len(ids), form)
    _run(admin, request, ids, verb, form.cleaned_data["reason"])
    return None


def _ask(admin: ModelAdmin, request: HttpRequest, verb: Action, number: int, form: ReasonForm) -> HttpResponse:
    hidden = [("action", request.POST["action"]), ("select_across", request.POST.get("select_across", "0"))]
    hidden += [(ACTION_CHECKBOX_NAME, pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
    plural = admin.opts.verbose_name_plural if number != 1 else admin.opts.verbose_name
    return ask(
        admin,
        request,
        title=f"{verb.label} {admin.opts.verbose_name_plural}",
        says=[f"{number:,} {plural}.", *verb.says, "Others in your selection are left alone."],
        button=f"{verb.label} {number:,}",
        back=request.get_full_path(),
        form=form,
        is_danger=verb.is_danger,
        hidden=hidden,
    )


def _run(admin: ModelAdmin, request: HttpRequest, ids: Sequence[int], verb: Action, reason: str) -> None:
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK]
        said = verb.run(part, actor=actor_of(request), reason=reason)
        rows = admin.get_queryset(request).filter(pk__in=part)
        LogEntry.objects.log_actions(request.user.pk or 0, rows, CHANGE, change_message=f"{verb.label}: {reason}")
        admin.message_user(request, said, messages.SUCCESS)
