"""The names of the task workers, and who else wants to be woken by what happens here.

A floor above is never named: it says itself, at start-up, which of its worker functions it wants woken.
"""

from kernel.wakeups import after_commit, publish

__all__ = [
    "FETCH",
    "RUN_INTERNAL",
    "START",
    "SWEEP",
    "after_commit",
    "jobs_named",
    "publish",
    "when_jobs_are_named",
]

START = "tasks.start"
FETCH = "tasks.fetch"
RUN_INTERNAL = "tasks.run_internal"
SWEEP = "tasks.sweep"

_on_job_ids: set[str] = set()


def when_jobs_are_named(worker: str) -> None:
    """Wake `worker` whenever start calls have brought the providers' job ids: words that came before can be matched."""
    _on_job_ids.add(worker)


def jobs_named() -> tuple[str, ...]:
    """Whom to wake when job ids have come."""
    return tuple(sorted(_on_job_ids))
