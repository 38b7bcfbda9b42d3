"""The last steps of a task and of a batch, as pages show them."""

from typing import Any

from tasks.models import Batch, ExternalJob, Task, Transition
from tasks.states import FINAL_STATES, Cause, Reason, State

SHOWN = 20
MOVED_LAST = 200  # tasks that are looked at for steps that do not name their batch yet

STATE_LABELS = dict(State.choices)
CAUSE_LABELS = {**dict(Cause.choices), Cause.POLL.value: "noticed by poll", Cause.WEBHOOK.value: "webhook"}
REASON_LABELS = dict(Reason.choices)


def _change(row: Transition, found_by_poll: bool = False) -> dict[str, Any]:
    """One transition, as pages show it. `found_by_poll`: no webhook told us that its job had ended, the poll did."""
    return {
        "id": str(row.pk),
        "task": str(row.task_id),
        "found_by_poll": found_by_poll and row.cause != Cause.POLL,
        "from": row.from_state,
        "to": row.to_state,
        "to_label": STATE_LABELS.get(row.to_state, row.to_state),
        "cause": row.cause,
        "cause_label": CAUSE_LABELS.get(row.cause, row.cause),
        "reason": row.reason,
        "reason_label": REASON_LABELS.get(row.reason, row.reason.replace("_", " ")),
        "actor": row.actor,
        "at": row.at,
    }


def of_task(task: Task) -> list[dict[str, Any]]:
    """Its newest, newest first."""
    return [_change(step) for step in Transition.objects.filter(task=task).order_by("-id")[:SHOWN]]


def of_batch(batch: Batch) -> list[dict[str, Any]]:
    """The newest of all its tasks, newest first."""
    steps = list(Transition.objects.filter(batch=batch).order_by("-id")[:SHOWN])
    if len(steps) < min(SHOWN, batch.total):  # each task has one at least: these are of before steps named their batch
        steps = _by_tasks(batch)
    polled = _polled([step.task_id for step in steps if step.to_state in FINAL_STATES])
    return [_change(step, (step.task_id, step.attempt) in polled) for step in steps]


def _by_tasks(batch: Batch) -> list[Transition]:
    """By the tasks that moved last."""
    moved = Task.objects.filter(batch=batch).order_by("-updated_at", "-pk").values_list("pk", flat=True)
    return list(Transition.objects.filter(task_id__in=list(moved[:MOVED_LAST])).order_by("-id")[:SHOWN])


def _polled(task_ids: list[int]) -> set[tuple[int, int]]:
    """(task, attempt) of the jobs whose end the poll found."""
    jobs = ExternalJob.objects.filter(task_id__in=task_ids, finished_by="poll")
    return set(jobs.values_list("task_id", "attempt"))
