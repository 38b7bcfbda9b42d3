"""Forget finished work, in bounded chunks, and nothing that something open still needs.

Succeeded and cancelled tasks go TASK_RETENTION_DAYS after their end, with their transitions, external jobs and kept
answers. A batch goes as a whole, since its counters equal a recount of its tasks, and only when it is completed. Dead
letters go only where TASK_DEAD_LETTER_RETENTION_DAYS says so, or once somebody has discarded them; a batch that holds
one stays with it. What a follow-up is still to be made from stays, and so does what made a batch that still runs.
A day count of 0 keeps for good.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from tasks.models import Batch, ExternalJob, FollowUp, KeptAnswer, ScheduleRun, Task, Transition
from tasks.states import OPEN_STATES, FollowUpState, State

CHUNK = 1_000
BATCHES = 20  # looked at together; each goes in a transaction of its own
PENDING = (FollowUpState.WAITING, FollowUpState.REFUSED)

log = structlog.get_logger(__name__)


@dataclass
class Pruned:
    """How much went. `is_done` is False where the time budget ended first; call again."""

    tasks: int = 0
    batches: int = 0
    dead_letters: int = 0
    kept_answers: int = 0
    schedule_runs: int = 0
    is_done: bool = True


def prune(
    *, now: datetime, budget_seconds: float = 60.0, dry_run: bool = False, spares_dead_letters: bool = False
) -> Pruned:
    """Remove what is past its time, oldest first. `spares_dead_letters`: something open may still ask for them."""
    pruned = Pruned()
    limits = _Limits.at(now, spares_dead_letters=spares_dead_letters)
    if dry_run:
        return _counted(limits, pruned)
    ends = time.monotonic() + budget_seconds
    for part in (_prune_batches, _prune_tasks, _prune_answers, _prune_runs):
        part(limits, pruned, ends)
    pruned.is_done = time.monotonic() < ends
    if pruned.tasks or pruned.kept_answers or pruned.schedule_runs:
        log.info("tasks_pruned", tasks=pruned.tasks, batches=pruned.batches, dead_letters=pruned.dead_letters)
    return pruned


@dataclass(frozen=True)
class _Limits:
    """What ended before goes; None: for good."""

    tasks: datetime | None
    dead_letters: datetime | None
    answers: datetime | None
    runs: datetime | None

    @classmethod
    def at(cls, now: datetime, *, spares_dead_letters: bool) -> "_Limits":
        def before(days: int) -> datetime | None:
            return now - timedelta(days=days) if days else None

        dead = None if spares_dead_letters else before(settings.TASK_DEAD_LETTER_RETENTION_DAYS)
        return cls(
            before(settings.TASK_RETENTION_DAYS),
            dead,
            before(settings.KEPT_ANSWER_RETENTION_DAYS),
            before(settings.SCHEDULE_RUN_RETENTION_DAYS),
        )


# --- batches, whole -------------------------------------------------------------------------------------------


def _old_batches(limits: _Limits) -> QuerySet[Batch]:
    """Completed, old enough, and asked for by nothing that is open."""
    rows = Batch.objects.filter(is_completed=True, completed_at__lt=limits.tasks)
    if limits.dead_letters is None:
        rows = rows.exclude(counts__has_key=State.DEAD_LETTER.value)
    else:
        rows = rows.filter(~Q(counts__has_key=State.DEAD_LETTER.value) | Q(completed_at__lt=limits.dead_letters))
    wanted = FollowUp.objects.filter(parent_batch=OuterRef("pk"))
    return rows.filter(~Exists(wanted.filter(_is_open())))


def _is_open() -> Q:
    """Of follow-ups: still to be made, or what they made still runs."""
    return Q(state__in=PENDING) | Q(Exists(Batch.objects.filter(follow_up=OuterRef("pk"), is_completed=False)))


def _prune_batches(limits: _Limits, pruned: Pruned, ends: float) -> None:
    after: tuple[datetime, int] | None = None
    while limits.tasks is not None and time.monotonic() < ends:
        rows = _old_batches(limits).order_by("completed_at", "pk")
        if after is not None:
            rows = rows.filter(Q(completed_at__gt=after[0]) | Q(completed_at=after[0], pk__gt=after[1]))
        found = list(rows.values_list("completed_at", "pk")[:BATCHES])
        if not found:
            return
        for _, pk in found:
            if time.monotonic() >= ends:
                return
            _remove_batch(pk, limits, pruned)
        after = found[-1][0] or limits.tasks, found[-1][1]


def _remove_batch(pk: int, limits: _Limits, pruned: Pruned) -> None:
    """One batch with all its tasks, judged again under its lock: a redrive may have opened it."""
    with transaction.atomic():
        locked = Batch.objects.select_for_update(of=("self",)).filter(pk=pk)
        if not locked or not _old_batches(limits).filter(pk=pk).exists():
            return
        of_batch = Task.objects.filter(batch_id=pk)
        if of_batch.filter(state__in=OPEN_STATES).exists():
            return  # its counters would say so too; a task that is open is never removed
        dead = of_batch.filter(state=State.DEAD_LETTER).count()
        pruned.tasks += _remove_tasks(list(of_batch.values_list("pk", flat=True)), pruned)
        _remove_follow_ups(FollowUp.objects.filter(parent_batch=pk))
        pruned.batches += locked._raw_delete("default")
        pruned.dead_letters += dead


# --- tasks that belong to none --------------------------------------------------------------------------------


def _old_tasks(limits: _Limits, state: State) -> QuerySet[Task]:
    ended = limits.dead_letters if state == State.DEAD_LETTER else limits.tasks
    rows = Task.objects.filter(batch__isnull=True, state=state, finished_at__lt=ended)
    return rows.filter(~Exists(FollowUp.objects.filter(parent_task=OuterRef("pk")).filter(_is_open())))


def _states(limits: _Limits) -> list[State]:
    """Those whose tasks may go at all."""
    found = [State.SUCCEEDED, State.CANCELLED] if limits.tasks is not None else []
    return [*found, State.DEAD_LETTER] if limits.dead_letters is not None else found


def _prune_tasks(limits: _Limits, pruned: Pruned, ends: float) -> None:
    for state in _states(limits):
        while time.monotonic() < ends:
            with transaction.atomic():
                rows = Task.objects.select_for_update(of=("self",), skip_locked=True)
                old = rows.filter(pk__in=list(_oldest(limits, state)), state=state, batch__isnull=True)
                ids = list(old.order_by("pk").values_list("pk", flat=True))
                removed = _remove_tasks(ids, pruned)
            pruned.tasks += removed
            pruned.dead_letters += removed if state == State.DEAD_LETTER else 0
            if not removed:
                break


def _oldest(limits: _Limits, state: State) -> Iterable[int]:
    return _old_tasks(limits, state).order_by("finished_at").values_list("pk", flat=True)[:CHUNK]


def _remove_tasks(ids: list[int], pruned: Pruned) -> int:
    """Locked ones, with all that is theirs. A schedule's slot stays, and says that its task is gone."""
    removed = 0
    for start in range(0, len(ids), CHUNK):
        part = ids[start : start + CHUNK]
        pruned.kept_answers += KeptAnswer.objects.filter(job__task_id__in=part).order_by()._raw_delete("default")
        ExternalJob.objects.filter(task_id__in=part).order_by()._raw_delete("default")
        Transition.objects.filter(task_id__in=part).order_by()._raw_delete("default")
        ScheduleRun.objects.filter(task_id__in=part).update(task=None)
        _remove_follow_ups(FollowUp.objects.filter(parent_task_id__in=part))
        removed += Task.objects.filter(pk__in=part).order_by()._raw_delete("default")
    return removed


def _remove_follow_ups(rows: QuerySet[FollowUp]) -> None:
    """What they made stays, and no longer says by what."""
    ids = list(rows.values_list("pk", flat=True))
    if ids:
        Batch.objects.filter(follow_up_id__in=ids).update(follow_up=None)
        FollowUp.objects.filter(pk__in=ids).order_by()._raw_delete("default")


# --- what goes without its task -------------------------------------------------------------------------------


def _old_answers(limits: _Limits) -> QuerySet[KeptAnswer]:
    """Of finished tasks; one that waits for a person keeps what came."""
    final = [State.SUCCEEDED, State.CANCELLED]
    return KeptAnswer.objects.filter(received_at__lt=limits.answers, job__task__state__in=final)


def _prune_answers(limits: _Limits, pruned: Pruned, ends: float) -> None:
    while limits.answers is not None and time.monotonic() < ends:
        ids = list(_old_answers(limits).order_by("pk").values_list("pk", flat=True)[:CHUNK])
        if not ids:
            return
        pruned.kept_answers += KeptAnswer.objects.filter(pk__in=ids)._raw_delete("default")


def _old_runs(limits: _Limits) -> QuerySet[ScheduleRun]:
    """Whose task is gone or never was, and which are no schedule's latest."""
    latest = Q(due_at=F("schedule__last_due_at"))
    return ScheduleRun.objects.filter(created_at__lt=limits.runs, task__isnull=True).exclude(latest)


def _prune_runs(limits: _Limits, pruned: Pruned, ends: float) -> None:
    while limits.runs is not None and time.monotonic() < ends:
        ids = list(_old_runs(limits).order_by("created_at").values_list("pk", flat=True)[:CHUNK])
        if not ids:
            return
        pruned.schedule_runs += ScheduleRun.objects.filter(pk__in=ids).order_by()._raw_delete("default")


def _counted(limits: _Limits, pruned: Pruned) -> Pruned:
    """What would go now."""
    if limits.tasks is not None:
        batches = _old_batches(limits)
        pruned.batches = batches.count()
        in_batches = Task.objects.filter(batch__in=batches.order_by().values("pk"))
        pruned.tasks = in_batches.count()
        pruned.dead_letters = in_batches.filter(state=State.DEAD_LETTER).count()
    for state in _states(limits):
        number = _old_tasks(limits, state).count()
        pruned.tasks += number
        pruned.dead_letters += number if state == State.DEAD_LETTER else 0
    pruned.kept_answers = _old_answers(limits).count() if limits.answers is not None else 0
    pruned.schedule_runs = _old_runs(limits).count() if limits.runs is not None else 0
    return pruned
