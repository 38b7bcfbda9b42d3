"""The life of a job: queued, processing, half-way, finished. One timer for all of them; none while nothing runs."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable

from sandbox.provider.faults import Faults
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, PROCESSING, Job
from sandbox.provider.kinds import ready
from sandbox.provider.stats import Stats

TICK_SECONDS = 0.02
NOT_READY_SECONDS = 0.1
FAILURES = (
    ("no_capacity", "No worker was free for this job."),
    ("upstream_error", "The source did not answer."),
    ("internal", "The job crashed."),
)


class Runner:
    """At most `concurrency` jobs run at once; the rest stays queued, in order."""

    def __init__(self, faults: Faults, stats: Stats, changed: Callable[[Job], None]) -> None:
        self._faults = faults
        self._stats = stats
        self._changed = changed
        self.clear()

    def clear(self) -> None:
        self._queue: deque[Job] = deque()
        self._due: list[tuple[float, int, int, Job]] = []
        self._running: set[Job] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, jobs: list[Job]) -> None:
        self._queue.extend(jobs)
        self._fill(time.time())

    def cancel(self, job: Job) -> None:
        """A finished job stays as it is."""
        if not job.finished and not job.lost:
            self._end(job, CANCELLED, time.time())
            self._fill(time.time())

    def _fill(self, now: float) -> None:
        free = self._faults.number("concurrency") - len(self._running)
        while free > 0 and self._queue:
            job = self._queue.popleft()
            if job.finished:
                continue
            free -= 1
            self._running.add(job)
            total = self._faults.random.uniform(self._faults.seconds("min_ms"), self._faults.seconds("max_ms"))
            for step, share in enumerate((0.15, 0.55, 1.0)):
                heapq.heappush(self._due, (now + total * share, job.number, step, job))
        self._arm(now)

    def _arm(self, now: float) -> None:
        if self._timer is None and self._due:
            wait = max(TICK_SECONDS, self._due[0][0] - now)
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = time.time()
        while self._due and self._due[0][0] <= now:
            _, _, step, job = heapq.heappop(self._due)
            if not job.finished and not job.lost:
                (self._begin, self._half_way, self._finish)[step](job, now)
        self._fill(now)

    def _begin(self, job: Job, now: float) -> None:
        job.status, job.progress, job.updated_at = PROCESSING, 10, now
        self._changed(job)

    def _half_way(self, job: Job, now: float) -> None:
        if self._faults.strikes("lose"):
            job.lost = True
            self._running.discard(job)
            self._stats.jobs[job.kind]["lost"] += 1
            return
        job.odd = self._faults.strikes("unknown_status")
        job.progress, job.updated_at = 60, now
        self._changed(job)

    def _finish(self, job: Job, now: float) -> None:
        if not ready(job.kind):
            heapq.heappush(self._due, (now + NOT_READY_SECONDS, job.number, 2, job))
        elif self._faults.strikes("fail"):
            code, message = self._faults.random.choice(FAILURES)
            job.error = {"code": code, "message": message}
            self._end(job, FAILED, now)
        else:
            job.progress = 100
            if self._faults.strikes("not_found_after_completion"):
                job.hidden_until = now + self._faults.seconds("not_found_ms")
            self._end(job, COMPLETED, now)

    def _end(self, job: Job, status: str, now: float) -> None:
        job.status, job.odd = status, False
        job.updated_at = job.finished_at = now
        self._running.discard(job)
        self._stats.jobs[job.kind][status] += 1
        self._changed(job)
