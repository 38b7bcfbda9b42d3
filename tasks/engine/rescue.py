"""Return what expired leases hold. Visible in the timeline as `rescued`, and bounded: five in a row are a dead letter.

A start call whose worker died is not rescued here: the provider may have the job, so `tasks.external.adoption` asks
it first.
"""

from datetime import datetime

import structlog

from tasks import kinds
from tasks.engine import lifecycle, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import Task
from tasks.states import Cause, State

LIMIT = 500

log = structlog.get_logger(__name__)


def expired_leases(now: datetime) -> int:
    """Tasks whose fetch or internal run was abandoned are due again; returns how many."""
    expired = Task.objects.filter(leased_until__lt=now)
    abandoned = expired.filter(state=State.FETCHING) | expired.filter(state=State.RUNNING, kind__in=kinds.INTERNAL)
    ids = list(abandoned.order_by("pk").values_list("pk", flat=True)[:LIMIT])
    if not ids:
        return 0
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        tasks = unit.lock(ids, leased_until__lt=now)
        for task in tasks:
            if task.state == State.RUNNING:
                detail = "The worker that ran it is gone; its lease expired."
                lifecycle.rescue(unit, task, detail=detail, back_to_retrying=True)
                unit.wake(wake.RUN_INTERNAL)
            elif task.state == State.FETCHING:
                detail = "The worker that fetched the result is gone; its lease expired."
                if lifecycle.rescue(unit, task, detail=detail) and not task.is_final:
                    unit.amend(task, next_attempt_at=now)
                    unit.wake(wake.FETCH)
    log.warning("leases_rescued", tasks=len(tasks))
    return len(tasks)
