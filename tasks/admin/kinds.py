"""Kind policies in the admin: what may be changed while everything runs, and the pause switch as a verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminSelectWidget

from kernel import audit, clock
from kernel.admin.actions import Action, on_one
from kernel.admin.bases import ListedFiltersAdmin
from kernel.admin.confirm import actor_of
from kernel.admin.forms import OnlyChangesAdmin
from tasks import kinds, providers
from tasks.engine import policies, wake
from tasks.models import KindPolicy
from tasks.reading import labels


def _pause(ids: Sequence[int], *, actor: str, reason: str) -> str:
    done = [policies.pause_kind(kind, actor=actor, reason=reason) for kind in _names(ids)]
    return "Paused: running tasks go on, nothing new starts." if any(done) else "It was paused already."


def _resume(ids: Sequence[int], *, actor: str, reason: str) -> str:
    done = [policies.resume_kind(kind, actor=actor, reason=reason) for kind in _names(ids)]
    return "Resumed: waiting tasks start now." if any(done) else "Nothing held it: its tasks start as they come."


def _names(ids: Sequence[int]) -> list[str]:
    return list(KindPolicy.objects.filter(pk__in=ids).order_by("pk").values_list("kind", flat=True))


PAUSE = Action(
    "pause",
    "tasks.pause_kind",
    ("Nothing new of this kind starts; running tasks go on.",),
    _pause,
    why_not=lambda policy: "It is paused by now." if policy.is_paused else "",
)
RESUME = Action(
    "resume",
    "tasks.pause_kind",
    ("Waiting tasks of this kind start at once.",),
    _resume,
    why_not=lambda policy: "" if labels.why_held(policy, clock.now()) else "It runs by now.",
)


class PolicyForm(forms.ModelForm):
    """The provider is chosen among those that are set up here."""

    class Meta:
        model = KindPolicy
        fields = ("provider", "concurrency", "rate_per_minute", "attempt_limit", "timeout_seconds", "batch_size")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "provider" not in self.fields:  # shown read-only
            return
        kind = kinds.KINDS.get(self.instance.kind)
        if kind is not None and not kind.is_external:
            names: list[str] = []
        else:
            names = [name for name, one in providers.available().items() if not kind or kind.name in one.kinds]
        if self.instance.provider and self.instance.provider not in names:
            names.append(self.instance.provider)
        first = f"default ({providers.default_name()})" if names else "none"
        self.fields["provider"] = forms.ChoiceField(
            choices=[("", first), *((name, name) for name in names)],
            required=False,
            widget=UnfoldAdminSelectWidget,
            help_text="Where new work goes. Jobs in flight stay where they are.",
        )


@admin.register(KindPolicy)
class KindPolicyAdmin(OnlyChangesAdmin, ListedFiltersAdmin):
    form = PolicyForm
    list_display = ("title", "switch", "provider_words", "concurrency", "rate", "attempt_limit", "timeout")
    list_fullwidth = True
    compressed_fields = True
    warn_unsaved_form = True
    fields = (
        "title",
        "switch",
        "held_words",
        "provider",
        "concurrency",
        "rate_per_minute",
        "attempt_limit",
        "timeout_seconds",
        "batch_size",
    )
    readonly_fields = ("title", "switch", "held_words")
    actions_detail = ("pause_verb", "resume_verb")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # a row is made when its kind is first used

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: KindPolicy, form: Any, change: bool) -> None:
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            audit.record(actor_of(request), "update", "kind", [obj.pk], detail={"fields": form.changed_data})
        wake.after_commit(wake.START, wake.RUN_INTERNAL)

    @display(description="Kind", ordering="kind")
    def title(self, obj: KindPolicy) -> str:
        return labels.kind_title(obj.kind)

    @display(description="Now", label={"running": "success", "paused": "warning", "held": "danger"})
    def switch(self, obj: KindPolicy) -> str:
        if obj.is_paused:
            return "paused"
        return "held" if labels.why_held(obj, clock.now()) else "running"

    @display(description="Why nothing starts")
    def held_words(self, obj: KindPolicy) -> str:
        return labels.why_held(obj, clock.now()) or "Tasks start as they come."

    @display(description="Provider", ordering="provider")
    def provider_words(self, obj: KindPolicy) -> str:
        kind = kinds.KINDS.get(obj.kind)
        if kind is not None and not kind.is_external:
            return "our own workers"
        return obj.provider or (f"{providers.default_name()} (default)" if providers.default_name() else "none set up")

    @display(description="Rate", ordering="rate_per_minute")
    def rate(self, obj: KindPolicy) -> str:
        return f"{obj.rate_per_minute} a minute" if obj.rate_per_minute is not None else "no limit"

    @display(description="Time for one attempt", ordering="timeout_seconds")
    def timeout(self, obj: KindPolicy) -> str:
        return f"{obj.timeout_seconds:,} s"

    def has_pause_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(PAUSE.permission)

    def has_resume_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(RESUME.permission)

    def why_not(self, verb: str, obj: KindPolicy) -> str:
        return {"pause": PAUSE, "resume": RESUME}[verb].refusal(obj)

    @action(description="Pause", url_path="pause", permissions=["pause"], icon="pause", variant=ActionVariant.DANGER)
    def pause_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, PAUSE)

    @action(
        description="Resume",
        url_path="resume",
        permissions=["resume"],
        icon="play_arrow",
        variant=ActionVariant.PRIMARY,
    )
    def resume_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, RESUME)
