"""One transaction of the task side: lock, move, write, log, count, announce. Every verb is made of it.

    with UnitOfWork.opened(cause=Cause.POLL, now=now) as unit:
        for task in unit.lock(ids):
            lifecycle.upstream_completed(unit, task)

Locks are taken in one order everywhere: tasks by id, their external jobs by id, batches by id. A state column is
written here and nowhere else, by an UPDATE that repeats the states it may come from and whose row count is checked.
The event that announces a change, the transition that explains it and the batch's counters commit with it. Nothing
in here may call a provider or the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from kernel.live_hints import touched
from tasks.engine import batches, telling, wake
from tasks.engine.writing import update_rows
from tasks.models import ExternalJob, Task, Transition
from tasks.states import FINAL_STATES, Cause, State

MAX_TOPICS = 200  # beyond it single tasks wait for the pages' own look


class LostRace(RuntimeError):
    """A guarded UPDATE met a row in another state although it was locked: the transaction is rolled back."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the transition table. `target` None: the state stays (a rescue)."""

    name: str
    sources: frozenset[str]
    target: State | None


@dataclass(slots=True)
class Move:
    task: Task
    step: Step
    before: str
    reason: str
    detail: str
    changed: set[str] = field(default_factory=set)


class UnitOfWork:
    """What a transaction has locked, and what it will write when it closes."""

    def __init__(self, *, cause: Cause, now: datetime, actor: str = "") -> None:
        self.cause, self.now, self.actor = cause, now, actor
        self.moves: dict[int, Move] = {}
        self._amended: dict[int, tuple[Task, set[str]]] = {}
        self._jobs: dict[int, tuple[ExternalJob, set[str]]] = {}
        self._new_jobs: list[ExternalJob] = []
        self._wakes: set[str] = set()

    @classmethod
    @contextmanager
    def opened(cls, *, cause: Cause, now: datetime, actor: str = "") -> Iterator[UnitOfWork]:
        with transaction.atomic():
            unit = cls(cause=cause, now=now, actor=actor)
            yield unit
            unit._close()

    def lock(self, ids: Iterable[int], **conditions: Any) -> list[Task]:
        """The tasks, locked in id order, without their inputs and results."""
        rows = Task.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids), **conditions)
        return list(rows.defer("input", "result").order_by("pk"))

    def jobs_of(self, tasks: Iterable[Task]) -> dict[int, ExternalJob]:
        """The newest external job of each task, locked. Only after the tasks themselves are."""
        rows = ExternalJob.objects.select_for_update(no_key=True, of=("self",))
        ids = [task.pk for task in tasks]
        return {job.task_id: job for job in rows.filter(task_id__in=ids).order_by("pk")} if ids else {}

    def move(self, task: Task, step: Step, *, reason: str, detail: str = "", **changes: Any) -> bool:
        """Take a step; False where the table does not allow it from the state the task is in."""
        if task.state not in step.sources or task.pk in self.moves:
            return False
        entry = Move(task, step, task.state, reason, detail[:2000])
        changes.setdefault("lease_token", None)
        changes.setdefault("leased_until", None)
        changes["state"] = step.target.value if step.target else task.state
        if step.target and (step.target in FINAL_STATES) != (entry.before in FINAL_STATES):
            changes["finished_at"] = self.now if step.target in FINAL_STATES else None
        self._set(task, changes, entry.changed)
        self.moves[task.pk] = entry
        return True

    def amend(self, task: Task, **changes: Any) -> None:
        """Change a locked task's other fields without a step: progress, a wish to cancel."""
        _, changed = self._amended.setdefault(task.pk, (task, set()))
        self._set(task, changes, changed)

    def job(self, job: ExternalJob, **changes: Any) -> None:
        _, changed = self._jobs.setdefault(job.pk, (job, set()))
        self._set(job, changes, changed)

    def add_job(self, job: ExternalJob) -> None:
        self._new_jobs.append(job)

    def wake(self, *names: str) -> None:
        self._wakes.update(names)

    @staticmethod
    def _set(row: Any, changes: dict[str, Any], changed: set[str]) -> None:
        for name, value in changes.items():
            setattr(row, name, value)
            changed.add(name)

    # --- closing ---------------------------------------------------------------------------------------------

    def _close(self) -> None:
        self._write_tasks()
        self._write_jobs()
        moves = list(self.moves.values())
        Transition.objects.bulk_create([self._transition(move) for move in moves], batch_size=1000)
        completed, waiting = batches.count([(move.task, move.before) for move in moves], self.now)
        telling.tell([move.task for move in moves if move.step.target], completed, cause=self.cause)
        self._hint_and_wake(moves, waiting)

    def _write_tasks(self) -> None:
        groups: dict[tuple[Step, frozenset[str]], list[Task]] = {}
        for pk, move in self.moves.items():
            _, more = self._amended.pop(pk, (None, set()))
            groups.setdefault((move.step, frozenset(move.changed | more)), []).append(move.task)
        for (step, names), tasks in groups.items():
            self._guarded(Task.objects.filter(state__in=step.sources), tasks, names)
        amended: dict[frozenset[str], list[Task]] = {}
        for task, changed in self._amended.values():
            amended.setdefault(frozenset(changed), []).append(task)
        for names, tasks in amended.items():
            self._guarded(Task.objects.all(), tasks, names)

    def _guarded(self, queryset: Any, tasks: list[Task], names: Iterable[str]) -> None:
        for task in tasks:
            task.updated_at = self.now
        if update_rows(queryset, tasks, [*names, "updated_at"]) != len(tasks):
            raise LostRace("a locked task was not in the state it was read in")

    def _write_jobs(self) -> None:
        groups: dict[frozenset[str], list[ExternalJob]] = {}
        for job, changed in self._jobs.values():
            groups.setdefault(frozenset(changed), []).append(job)
        for names, jobs in groups.items():
            update_rows(ExternalJob.objects.all(), jobs, names)
        if self._new_jobs:
            ExternalJob.objects.bulk_create(self._new_jobs, batch_size=1000)

    def _transition(self, move: Move) -> Transition:
        return Transition.of(
            move.task,
            from_state=move.before,
            to_state=move.task.state,
            cause=self.cause,
            reason=move.reason[:60],
            detail=move.detail,
            actor=self.actor[:100],
            attempt=move.task.attempt_count,
        )

    def _hint_and_wake(self, moves: list[Move], waiting: bool) -> None:
        tasks = [move.task for move in moves] + [task for task, _ in self._amended.values()]
        if not tasks:
            return
        groups = {f"batch:{task.batch_id}" for task in tasks if task.batch_id}
        touched("tasks", "stats", *groups, *(f"task:{task.pk}" for task in tasks[:MAX_TOPICS]))
        freed = any(move.before in (State.RUNNING, State.FETCHING) and move.step.target for move in moves)
        if freed and waiting:
            self._wakes.update((wake.START, wake.RUN_INTERNAL))
        wake.after_commit(*sorted(self._wakes))
