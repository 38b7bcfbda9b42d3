"""The poll: ask providers about every open external job, many in one call, and repair what webhooks missed.

Every account has a stream of its own (`tasks.external.polling`), so that one that hangs delays no other's news. A
provider that is down changes nothing.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import structlog

from kernel import steps
from tasks import accounts
from tasks.engine.worker_loop import run_streams
from tasks.external import adoption
from tasks.external.comparing import Difference
from tasks.external.overdue import time_out
from tasks.external.polling import Round
from tasks.external.shared_polling import SharedRound
from tasks.models import ExternalJob
from tasks.states import JobState

BUDGET_SECONDS = 50.0  # what is not asked about by then is first in the next minute

log = structlog.get_logger(__name__)


@dataclass
class ReconcileReport:
    """What a round did or, in a dry run, would do. `differences`: `{task_id, job_id, ours, theirs, would}`."""

    calls: int = 0
    asked: int = 0
    changed: int = 0
    not_found: int = 0
    lost: int = 0
    timed_out: int = 0
    adopted: int = 0
    never_began: int = 0
    unreachable: dict[str, str] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        return asdict(self)


def reconcile(
    now: datetime, *, dry_run: bool = False, force: bool = False, should_stop: Callable[[], bool] = lambda: False
) -> ReconcileReport:
    """One round over all accounts. `force`, a person's: asks about every open job, not only those that are due, and
    looks for orphaned starts, which otherwise have a worker function of their own."""
    report = ReconcileReport()
    if force and not dry_run:
        report.adopted, report.never_began = adoption.adopt(now).values()
    rounds = _rounds(now, report, dry_run=dry_run, everything=force or dry_run)
    run_streams([one.stream() for one in rounds], seconds=BUDGET_SECONDS, should_stop=should_stop)
    for one in rounds:
        _add(report, one)
    if not dry_run:
        report.timed_out = time_out(now)
    log.info("reconciled", **{k: v for k, v in report.shown().items() if isinstance(v, int) and v})
    return report


def _rounds(now: datetime, report: ReconcileReport, *, dry_run: bool, everything: bool) -> list[Round]:
    open_jobs = ExternalJob.objects.filter(state=JobState.SUBMITTED)
    rounds = []
    for name in list(open_jobs.order_by().values_list("provider", flat=True).distinct()):
        provider = accounts.get(name)
        if provider is None:
            report.unreachable[name] = "not configured"
            continue
        if not provider.can_be_asked:
            continue  # only its callbacks tell; an attempt's deadline ends what they forget
        kind = SharedRound if provider.has_items else Round
        rounds.append(kind(provider, now, dry_run=dry_run, everything=everything))
    return rounds


def _add(report: ReconcileReport, one: Round) -> None:
    name, counted = one.provider.name, one.counted
    steps.guarded(f"tasks: poll of {name}", one.finish)
    for word in ("calls", "asked", "changed", "not_found", "lost"):
        setattr(report, word, getattr(report, word) + getattr(counted, word))
    report.differences += counted.differences
    if counted.error:
        report.unreachable[name] = counted.error
