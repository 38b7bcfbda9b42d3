"""Tasks in the admin: read-only rows, a page that tells the task's story, three verbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display
from unfold.enums import ActionVariant

from kernel import clock
from kernel.admin.actions import Action, on_one, on_selection
from kernel.admin.bases import KeptAdmin
from tasks import kinds, providers
from tasks.engine import lifecycle
from tasks.errors import WrongState
from tasks.models import ExternalJob, KeptAnswer, KindPolicy, Task
from tasks.reading import bodies, labels
from tasks.reading.timeline import Entry, entries
from tasks.states import OPEN_STATES, Cause, State

JOBS_SHOWN = 20


def _redrive(ids: Sequence[int], *, actor: str, reason: str) -> str:
    moved = lifecycle.redrive(ids, actor=actor, reason=reason, cause=Cause.OPERATOR)
    return _said(len(moved), "redriven: queued again with new attempts")


def _discard(ids: Sequence[int], *, actor: str, reason: str) -> str:
    return _said(len(lifecycle.discard(ids, actor=actor, reason=reason, cause=Cause.OPERATOR)), "discarded")


def _cancel(ids: Sequence[int], *, actor: str, reason: str) -> str:
    answers = list(lifecycle.cancel(ids, actor=actor, reason=reason, cause=Cause.OPERATOR).values())
    waiting = answers.count("cancelling")
    if not waiting:
        return _said(answers.count("cancelled"), "cancelled")
    return f"{answers.count('cancelled'):,} cancelled; {waiting:,} wait for the provider's answer, which decides."


def _said(number: int, done: str) -> str:
    if not number:
        raise WrongState("Its state changed in the meantime. Nothing was done.")
    return f"{number:,} {'task was' if number == 1 else 'tasks were'} {done}."


REDRIVE = Action(
    "redrive",
    "tasks.redrive_task",
    (
        "It gets new attempts; a job at a provider is paid for again. Where only its result was missing, that is "
        "fetched again instead.",
        "Has the cause been corrected?",
    ),
    _redrive,
    (State.DEAD_LETTER.value,),
)
CANCEL = Action(
    "cancel",
    "tasks.cancel_task",
    ("It is stopped, and its subscriber is told.", "If a provider has it, the provider's answer decides."),
    _cancel,
    OPEN_STATES,
    is_danger=True,
)
DISCARD = Action(
    "discard",
    "tasks.cancel_task",
    ("It is given up for good and becomes cancelled; its history stays.",),
    _discard,
    (State.DEAD_LETTER.value,),
    is_danger=True,
)


VERBS = {action.name: action for action in (REDRIVE, CANCEL, DISCARD)}


class KindFilter(admin.SimpleListFilter):
    """The kinds that exist: known from the code, so nothing is read for it."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind.name, kind.title) for kind in kinds.KINDS.values()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(kind=self.value()) if self.value() else queryset


@admin.register(Task)
class TaskAdmin(KeptAdmin):
    list_display = (
        "number",
        "kind_title",
        "state_badge",
        "progress_words",
        "batch_link",
        "subscriber",
        "name",
        "created",
    )
    list_filter = ("state", KindFilter, ("created_at", RangeDateTimeFilter))
    list_filter_submit = True
    linked_columns = ("batch",)
    search_exact = ("reference", "correlation_id", "subscriber")
    search_numbers = ("pk", "batch_id")
    search_help_text = "Task id, batch id, reference, correlation id, job id or subscriber, exactly"
    change_form_outer_before_template = "admin/tasks/task_panel.html"
    actions = ("redrive_selected", "cancel_selected", "discard_selected")
    actions_detail = ("redrive_verb", "cancel_verb", "discard_verb")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        return super().get_queryset(request).defer(*bodies.NAMES)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """A job id is looked up by itself: in one OR with the task's own columns no index would serve."""
        job = ExternalJob.objects.filter(provider__in=list(providers.available()), job_id=search_term.strip())
        of_job = list(job.values_list("task_id", flat=True)[:100]) if search_term.strip() else []
        if of_job:
            return queryset.filter(pk__in=of_job), False
        return super().get_search_results(request, queryset, search_term)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return []

    @display(description="Task", ordering="id")
    def number(self, obj: Task) -> str:
        return str(obj.pk)

    @display(description="Kind")
    def kind_title(self, obj: Task) -> str:
        return labels.kind_title(obj.kind)

    @display(description="State", label=labels.COLOURS)
    def state_badge(self, obj: Task) -> str:
        return obj.get_state_display()

    @display(description="Progress")
    def progress_words(self, obj: Task) -> str:
        again = f", attempt {obj.attempt_count}" if obj.attempt_count > 1 else ""
        return obj.error_code.replace("_", " ") if obj.error_code and not again else f"{obj.progress} %{again}"

    @display(description="Batch")
    def batch_link(self, obj: Task) -> str:
        if obj.batch_id is None:
            return "—"
        address = reverse("admin:tasks_batch_change", args=[obj.batch_id])
        return format_html('<a class="underline" href="{}">{}</a>', address, obj.batch_id)

    @display(description="Reference")
    def name(self, obj: Task) -> str:
        return obj.reference or "—"

    @display(description="Created", ordering="id")
    def created(self, obj: Task) -> str:
        return f"{obj.created_at:%Y-%m-%d %H:%M:%S}"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        task = Task.objects.defer(*bodies.NAMES).filter(pk=object_id).first() if object_id.isdigit() else None
        panel = {"panel": _panel(task, request)} if task else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **panel})

    def has_redrive_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(REDRIVE.permission)

    def has_cancel_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(CANCEL.permission)

    def has_discard_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(DISCARD.permission)

    def why_not(self, verb: str, obj: Task) -> str:
        return VERBS[verb].refusal(obj)

    @action(
        description="Redrive", url_path="redrive", permissions=["redrive"], icon="replay", variant=ActionVariant.PRIMARY
    )
    def redrive_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, REDRIVE, (WrongState,))

    @action(
        description="Cancel", url_path="cancel", permissions=["cancel"], icon="cancel", variant=ActionVariant.DANGER
    )
    def cancel_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, CANCEL, (WrongState,))

    @action(
        description="Discard", url_path="discard", permissions=["discard"], icon="delete", variant=ActionVariant.DANGER
    )
    def discard_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, DISCARD, (WrongState,))

    @admin.action(description="Redrive selected dead letters", permissions=["redrive"])
    def redrive_selected(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        return on_selection(self, request, queryset, REDRIVE)

    @admin.action(description="Cancel selected tasks", permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        return on_selection(self, request, queryset, CANCEL)

    @admin.action(description="Discard selected dead letters", permissions=["discard"])
    def discard_selected(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        return on_selection(self, request, queryset, DISCARD)


def _panel(task: Task, request: HttpRequest) -> dict[str, Any]:
    """Everything the page shows, in words."""
    now = clock.now()
    jobs = list(task.jobs.order_by("-id")[:JOBS_SHOWN])
    policy = KindPolicy.objects.filter(kind=task.kind).first()
    shows = request.user.has_perm("tasks.view_payload_task")
    return {
        "task": task,
        "state": task.get_state_display(),
        "colour": labels.COLOURS[task.get_state_display()],
        "kind": labels.kind_title(task.kind),
        "next_step": labels.next_step(task, jobs[0] if jobs else None, policy, now),
        "attempts": f"{task.attempt_count} of {task.attempt_limit}",
        "redriven": {0: "never", 1: "once"}.get(task.redrive_count, f"{task.redrive_count} times"),
        "batch": f"Batch {task.batch_id}, place {task.position}" if task.batch_id else "none",
        "batch_address": reverse("admin:tasks_batch_change", args=[task.batch_id]) if task.batch_id else "",
        "created": labels.moment(task.created_at),
        "run_at": labels.moment(task.run_at) if task.run_at > task.created_at else "",
        "finished": labels.moment(task.finished_at),
        "jobs": [(job, job.get_state_display(), labels.JOB_COLOURS[job.get_state_display()]) for job in jobs],
        "entries": [_entry(entry, request) for entry in entries(task)],
        "shows_payload": shows,
        "bodies": [_body(task, name) for name in bodies.NAMES] if shows else [],
        "kept": _kept(task) if shows else None,
        "hidden": labels.NO_PAYLOAD,
    }


def _body(task: Task, name: str) -> dict[str, Any]:
    """An input or a result for people: a short one set out, of a long one its beginning and where the whole is."""
    size = getattr(task, f"{name}_bytes")
    shown = {"title": name.capitalize(), "text": "", "note": "None yet." if size is None else "", "address": ""}
    if size is None:
        return shown
    shown["address"] = reverse(f"task-{name}", args=[task.pk])
    if size <= labels.PAYLOAD_SHOWN:
        return {**shown, "text": labels.payload(getattr(task, name))}
    return {**shown, "text": bodies.beginning(task, name), "note": f"The beginning of {size:,} bytes."}


def _kept(task: Task) -> dict[str, Any] | None:
    """What a provider sent and nobody could use."""
    answer = KeptAnswer.objects.filter(job__task=task).defer("body").order_by("-job_id").first()
    if answer is None:
        return None
    more = " (the beginning)" if answer.body_bytes > bodies.SHOWN_CHARACTERS else ""
    return {
        "note": f"{answer.note} {answer.body_bytes:,} bytes came{more}.".strip(),
        "text": bodies.kept_beginning(answer),
        "address": reverse("task-kept-answer", args=[task.pk]),
    }


ICONS = {"transition": "trending_flat", "external_job": "dns", "event": "campaign", "delivery": "send"}


def _entry(entry: Entry, request: HttpRequest) -> dict[str, Any]:
    address = ""
    if "delivery" in entry.fields and request.user.has_perm("delivery.view_delivery"):
        address = reverse("admin:delivery_delivery_change", args=[entry.fields["delivery"]])
    moment = f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at.microsecond // 1000:03d} UTC"
    shown = {"entry": entry, "icon": ICONS[entry.type], "at": entry.at, "moment": moment, "address": address}
    return {**shown, **entry.fields}
