"""What worker and child say to each other, as plain tuples; and a task in that form. Pure.

From the worker: `(RUN, [order, …])`, `(CANCEL, id)`, `(GIVE_BACK,)`. From the child: a list of `(DONE, id, ended,
seconds)`, `(PROGRESS, id, percent, note)`, `(UNBEGUN, [id, …])`.
"""

from typing import Any

from tasks.models import Task

RUN, CANCEL, GIVE_BACK = "run", "cancel", "give_back"
DONE, PROGRESS, UNBEGUN = "done", "progress", "unbegun"

_MAY_READ = {  # what a run's function may read of its task without asking the database
    "id", "kind", "input", "batch_id", "position", "subscriber", "caller", "reference", "correlation_id", "state",
    "attempt_count", "attempt_limit", "redrive_count", "run_at", "created_at", "deadline_at", "expires_at", "priority",
}  # fmt: skip
# In the order of the model, which `from_db` counts by.
CARRIED = [field.attname for field in Task._meta.concrete_fields if field.attname in _MAY_READ]
Order = tuple[tuple[Any, ...], int]  # the carried fields, and the memory limit in MB


def order_of(task: Task, memory_mb: int) -> Order:
    values = task.__dict__
    return tuple(values[name] for name in CARRIED), memory_mb


def task_of(order: Order) -> Task:
    """The task in the child. What is not carried is read from the database where it is asked for."""
    return Task.from_db(None, CARRIED, order[0])


def id_of(order: Order) -> int:
    pk: int = order[0][0]
    return pk
