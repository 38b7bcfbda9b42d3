"""The verbs of an account as buttons of its page: who may, when not, what is asked first, what is said after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action
from unfold.enums import ActionVariant

from kernel import clock
from kernel.admin.bases import ListedFiltersAdmin
from kernel.admin.confirm import OptionalReasonForm, ReasonForm, run_verb
from tasks import accounting
from tasks.accounting import verbs
from tasks.accounting.credentials import has_previous
from tasks.accounts import environment, limits
from tasks.admin.account_forms import KeyForm, SecretForm
from tasks.errors import TaskError
from tasks.models import ExternalJob, ProviderAccount


class AccountVerbs(ListedFiltersAdmin):
    """What the admin of accounts is made of, beside its list and its form."""

    actions_detail = (
        "check_verb",
        "resume_verb",
        "pause_verb",
        {"title": "More", "items": ["rotate_key_verb", "rotate_secret_verb", "end_secret_verb", "retire_verb"]},
    )

    def has_check_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("tasks.change_provideraccount")

    has_rotate_key_permission = has_rotate_secret_permission = has_end_secret_permission = has_check_permission

    def has_pause_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("tasks.pause_provideraccount")

    has_resume_permission = has_pause_permission

    def has_retire_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("tasks.delete_provideraccount")

    def why_not(self, verb: str, obj: ProviderAccount) -> str:
        if obj.retired_at is not None:
            return "" if verb == "check" else "It is retired by now."
        now = clock.now()
        if verb == "pause" and obj.is_paused:
            return "It is paused by now."
        if verb == "resume" and not obj.is_paused and not obj.is_held(now):
            return "Nothing holds it by now."
        if verb == "end_secret" and not has_previous(obj, now):
            return "No earlier secret is accepted by now."
        if verb in FIELDS and (variable := environment.variables_of(obj).get(FIELDS[verb])):
            return f"{variable} sets it: change it there, and restart."
        return ""

    def _run(
        self,
        request: HttpRequest,
        object_id: str,
        verb: str,
        act: Callable[[str, str, dict[str, Any]], str],
        *says: str,
        form_class: type[forms.Form] = ReasonForm,
        is_danger: bool = False,
    ) -> HttpResponse:
        account = self.get_object(request, object_id)
        if account is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        label = verb.replace("_", " ").capitalize()
        return run_verb(
            self,
            request,
            account,
            verb=verb,
            title=f"{label} {account}" if " " not in label else f"{label} of {account}",
            says=list(says),
            button=label,
            act=lambda actor, form: act(account.name, actor, form),
            refusals=(TaskError,),
            form_class=form_class,
            is_danger=is_danger,
        )

    @action(description="Check", url_path="check", permissions=["check"], icon="network_ping")
    def check_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            return f"{name}: {accounting.check(name, actor=actor, reason=form['reason']).words}"

        says = ("The provider is asked one harmless question with the stored key.", "Nothing starts, nothing is paid.")
        return self._run(request, object_id, "check", act, *says, form_class=OptionalReasonForm)

    @action(description="Pause", url_path="pause", permissions=["pause"], icon="pause", variant=ActionVariant.DANGER)
    def pause_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            accounting.pause(name, actor=actor, reason=form["reason"])
            return "Paused: nothing new starts there; running jobs go on."

        says = ("Nothing new starts there.", "Running jobs go on: they are polled, fetched and cancelled.")
        return self._run(request, object_id, "pause", act, *says)

    @action(
        description="Resume",
        url_path="resume",
        permissions=["resume"],
        icon="play_arrow",
        variant=ActionVariant.PRIMARY,
    )
    def resume_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            accounting.resume(name, actor=actor, reason=form["reason"])
            return "Resumed: waiting tasks start now."

        says = ("Waiting tasks start at once; a hold ends too.",)
        return self._run(request, object_id, "resume", act, *says, form_class=OptionalReasonForm)

    @action(description="Rotate key", url_path="rotate-key", permissions=["rotate_key"], icon="key")
    def rotate_key_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            accounting.rotate_key(name, form["api_key"], actor=actor, reason=form["reason"])
            return "The next call carries the new key. Check it, then end the old one at the provider."

        says = ("Make a new key at the provider first; the old one should stay until this one is checked.",)
        return self._run(request, object_id, "rotate_key", act, *says, form_class=KeyForm)

    @action(description="Rotate secret", url_path="rotate-secret", permissions=["rotate_secret"], icon="lock_reset")
    def rotate_secret_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            said = {"overlap": form["overlap"], "reason": form["reason"]}
            row = accounting.rotate_secret(name, form["secret"], actor=actor, **said)
            until = row.previous_secret_until
            return f"Webhooks signed with the new one are taken{_also(until)}."

        says = (
            "Webhooks may be signed with the new secret from now on.",
            "The one before is accepted for the overlap, so that none of its last webhooks is lost.",
        )
        return self._run(request, object_id, "rotate_secret", act, *says, form_class=SecretForm)

    @action(description="End the secret before", url_path="end-secret", permissions=["end_secret"], icon="key_off")
    def end_secret_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            accounting.end_previous_secret(name, actor=actor, reason=form["reason"])
            return "Only the standing secret is accepted now."

        says = ("Webhooks that are signed with the secret before are refused from now on, at once.",)
        return self._run(request, object_id, "end_secret", act, *says, is_danger=True)

    @action(
        description="Retire", url_path="retire", permissions=["retire"], icon="archive", variant=ActionVariant.DANGER
    )
    def retire_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(name: str, actor: str, form: dict[str, Any]) -> str:
            accounting.retire(name, actor=actor, reason=form["reason"])
            return "Retired: nothing new goes there; jobs in flight finish."

        account = self.get_object(request, object_id)
        says = [_open_words(account), "Nothing new goes there, for good. Its name stays taken. This cannot be undone."]
        if account is not None and (kept := verbs.why_not_retire(account)):
            says.insert(0, f"This will be refused: {kept}")
        return self._run(request, object_id, "retire", act, *says, is_danger=True)


FIELDS = {"rotate_key": "api_key", "rotate_secret": "webhook_secret", "end_secret": "webhook_secret"}


def _also(until: Any) -> str:
    return f", and those signed with the one before until {until:%Y-%m-%d %H:%M} UTC" if until else " alone"


def _open_words(account: ProviderAccount | None) -> str:
    jobs = ExternalJob.objects.filter(provider=account.name if account else "", state__in=limits.OPEN).count()
    return f"{jobs:,} of its jobs are open; they finish."
