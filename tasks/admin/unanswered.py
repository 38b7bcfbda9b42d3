"""What a person does in the admin about starts that were never answered: name the job, or start again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminTextInputWidget

from kernel.admin.actions import Action, on_one, on_selection, require
from kernel.admin.bases import KeptAdmin
from kernel.admin.confirm import ReasonForm, run_verb
from tasks.errors import NotAdopted, WrongState
from tasks.external import naming, unanswered
from tasks.models import Task
from tasks.states import Cause, State

NOT_WAITING = "No start of it waits for you."


def _start_again(ids: Sequence[int], *, actor: str, reason: str) -> str:
    moved = len(unanswered.start_again(ids, actor=actor, reason=reason, cause=Cause.OPERATOR))
    if not moved:
        raise WrongState("Its start does not wait for this any more. Nothing was done.")
    return f"{moved:,} {'task is' if moved == 1 else 'tasks are'} started again."


def _why_not(task: Task) -> str:
    job = task.jobs.order_by("-id").first() if task.state == State.RUNNING else None
    return "" if unanswered.is_waiting(job) else NOT_WAITING


START_AGAIN = Action(
    "start_again",
    "tasks.redrive_task",
    (
        "A new job is started. If the first start was taken after all, both run and both are paid for.",
        "Have you looked at the provider whether the job is there?",
    ),
    _start_again,
    (State.RUNNING.value,),
    is_danger=True,
    why_not=_why_not,
)
ADOPT_SAYS = [
    "The job that you name is taken for this task's, after its provider was asked about it.",
    "It goes on as if the start had been answered: its result is fetched when it is finished.",
]


class JobForm(ReasonForm):
    """Which job it is."""

    job_id = forms.CharField(
        label="Job id",
        max_length=naming.ID_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        help_text="As the provider names it.",
    )
    item_key = forms.CharField(
        label="Item",
        max_length=naming.ID_LENGTH,
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Only where one job of the provider's holds many tasks.",
    )
    field_order = ("job_id", "item_key", "reason")


class UnansweredFilter(admin.SimpleListFilter):
    title = "start"
    parameter_name = "start"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("unanswered", "never answered, waits for you")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return of_unanswered(queryset) if self.value() == "unanswered" else queryset


def of_unanswered(tasks: QuerySet[Task]) -> QuerySet[Task]:
    return tasks.filter(state=State.RUNNING, pk__in=unanswered.waiting().values("task_id"))


class UnansweredVerbs(KeptAdmin):
    """Mixed into the admin of tasks."""

    def has_start_again_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(START_AGAIN.permission)

    def has_adopt_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(START_AGAIN.permission)

    @action(
        description="It is this job",
        url_path="adopt",
        permissions=["adopt"],
        icon="link",
        variant=ActionVariant.PRIMARY,
    )
    def adopt_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        require(request, START_AGAIN)
        task = self.get_object(request, object_id)
        if task is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)

        def act(actor: str, form: dict[str, Any]) -> str:
            by = {"actor": actor, "reason": form["reason"], "cause": Cause.OPERATOR}
            said = naming.adopt(task.pk, form["job_id"], item_key=form["item_key"], **by)
            return f"It is the job {form['job_id']}; the provider says “{said}” of it."

        return run_verb(
            self,
            request,
            task,
            verb="adopt",
            title=f"{task}: it is this job",
            says=ADOPT_SAYS,
            button="It is this job",
            act=act,
            refusals=(NotAdopted,),
            form_class=JobForm,
        )

    @action(
        description="Start again",
        url_path="start-again",
        permissions=["start_again"],
        icon="restart_alt",
        variant=ActionVariant.DANGER,
    )
    def start_again_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return on_one(self, request, object_id, START_AGAIN, (WrongState,))

    @admin.action(description="Start selected unanswered starts again", permissions=["start_again"])
    def start_again_selected(self, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
        waiting = of_unanswered(queryset)
        if not waiting.exists():
            self.message_user(request, "No start of these tasks waits for you. Nothing was done.", messages.WARNING)
            return None
        return on_selection(self, request, waiting, START_AGAIN)
