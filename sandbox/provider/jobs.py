"""Jobs and batches, in memory, and how to find them. Knows neither time nor webhooks."""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.provider.faults import UNKNOWN_STATUS
from sandbox.times import iso

QUEUED, PROCESSING, COMPLETED, FAILED, CANCELLED = "queued", "processing", "completed", "failed", "cancelled"
TERMINAL = (COMPLETED, FAILED, CANCELLED)


@dataclass(slots=True, eq=False)
class Batch:
    id: str
    kind: str
    created_at: float
    reference: str
    jobs: list[Job] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        counts = dict.fromkeys((QUEUED, PROCESSING, *TERMINAL), 0)
        for job in self.jobs:
            counts[job.status] += 1
        done = sum(counts[status] for status in TERMINAL)
        return {
            "batch_id": self.id,
            "kind": self.kind,
            "reference": self.reference,
            "status": COMPLETED if done == len(self.jobs) else PROCESSING if done or counts[PROCESSING] else QUEUED,
            "total": len(self.jobs),
            "counts": counts,
            "created_at": iso(self.created_at),
        }


@dataclass(slots=True, eq=False)
class Job:
    id: str
    number: int
    kind: str
    input: dict[str, Any]
    reference: str
    webhook_url: str
    correlation_id: str
    created_at: float
    updated_at: float
    batch: Batch | None = None
    status: str = QUEUED
    progress: int = 0
    error: dict[str, str] | None = None
    finished_at: float | None = None
    hidden_until: float = 0.0
    odd: bool = False
    """Reports an unknown status just now."""
    lost: bool = False

    @property
    def said_status(self) -> str:
        return UNKNOWN_STATUS if self.odd else self.status

    @property
    def finished(self) -> bool:
        return self.status in TERMINAL

    def visible(self, now: float) -> bool:
        return not self.lost and self.hidden_until <= now

    def shown(self) -> dict[str, Any]:
        return {
            "job_id": self.id,
            "batch_id": self.batch.id if self.batch else None,
            "kind": self.kind,
            "reference": self.reference,
            "status": self.said_status,
            "progress": self.progress,
            "error": self.error,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "finished_at": iso(self.finished_at),
        }

    def update(self) -> dict[str, Any]:
        """What a webhook says about it."""
        said: dict[str, Any] = {"job_id": self.id, "status": self.said_status, "progress": self.progress}
        if self.error:
            said["error"] = self.error
        return said


class Store:
    """At most `max_jobs`: beyond that the oldest finished ones are forgotten."""

    def __init__(self, max_jobs: int) -> None:
        self._max = max_jobs
        self.clear()

    def clear(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._in_order: list[Job] = []
        self._by_reference: dict[str, list[Job]] = {}
        self.batches: dict[str, Batch] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def new_batch(self, kind: str, reference: str, now: float) -> Batch:
        batch = Batch(f"batch_{secrets.token_hex(10)}", kind, now, reference)
        self.batches[batch.id] = batch
        return batch

    def new_job(
        self, kind: str, job_input: dict[str, Any], reference: str, batch: Batch | None, now: float, **more: Any
    ) -> Job:
        self._last_number += 1
        job = Job(
            id=f"job_{secrets.token_hex(10)}",
            number=self._last_number,
            kind=kind,
            input=job_input,
            reference=reference,
            batch=batch,
            created_at=now,
            updated_at=now,
            **more,
        )
        self._jobs[job.id] = job
        self._in_order.append(job)
        if batch:
            batch.jobs.append(job)
        if reference:
            self._by_reference.setdefault(reference, []).append(job)
        if len(self._jobs) > self._max:
            self._forget_some()
        return job

    def _forget_some(self) -> None:
        """A tenth at once, so that it is rare."""
        surplus = self._max // 10 + 1
        forgotten = [job for job in self._in_order if job.finished][:surplus]
        for job in forgotten:
            del self._jobs[job.id]
            if job.batch:
                self.batches.pop(job.batch.id, None)
            if job.reference:
                self._by_reference.pop(job.reference, None)
        gone = set(forgotten)
        self._in_order = [job for job in self._in_order if job not in gone]

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def repeated_references(self) -> dict[str, int]:
        """References with more than one job: a task that was started twice."""
        return {reference: len(jobs) for reference, jobs in self._by_reference.items() if len(jobs) > 1}

    def select(self, *, ids: list[str], references: list[str], batch_id: str) -> list[Job]:
        """The narrowest set that an index gives, in order of creation."""
        found: Iterable[Job]
        if ids:
            found = (self._jobs[i] for i in dict.fromkeys(ids) if i in self._jobs)
        elif references:
            found = (job for r in dict.fromkeys(references) for job in self._by_reference.get(r, ()))
        elif batch_id:
            found = self.batches[batch_id].jobs if batch_id in self.batches else ()
        else:
            return self._in_order
        return sorted(found, key=lambda job: job.number)


def after(jobs: list[Job], number: int) -> Iterator[Job]:
    """The jobs of an ordered list behind a cursor."""
    for index in range(bisect_left(jobs, number + 1, key=lambda job: job.number), len(jobs)):
        yield jobs[index]
