"""One account's part of a poll: which jobs to ask about, the calls, and what comes of them.

Each account is a stream of its own, so one that hangs delays no other. At the first sign of that its round is over;
the rest is due in the next minute. Each job's next poll is set before it is asked about, so a crash makes a later
poll, never a storm. What a provider says goes through the same `apply` as a webhook.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F

from tasks.accounts import limits as account_limits
from tasks.engine.worker_loop import Stream
from tasks.external.comparing import EVERY, Difference, apply_all, count_missing, difference, is_news
from tasks.external.refs import ref_of
from tasks.models import ExternalJob
from tasks.providers.base import (
    JobRef,
    ListedJob,
    NoAnswer,
    NotThere,
    Provider,
    ProviderError,
    ProviderUnavailable,
    ProviderUpdate,
)
from tasks.states import JobState

CHUNK = 500  # jobs of one call, where its adapter does not say how many it takes
ONE_BY_ONE = 20  # jobs that a thread asks about one after the other, where there is no listing
TROUBLED = 3  # so many jobs in a row that could not be told, and it is the provider's trouble, not theirs

log = structlog.get_logger(__name__)
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ask:
    """Open jobs to ask about together; `jobs` each with their task's `kind`."""

    jobs: tuple[Any, ...]
    refs: tuple[JobRef, ...]


@dataclass(slots=True)
class Said:
    """`unasked`: where it broke off before, so that they are no misses. `broke`: what no adapter may raise."""

    listed: list[ListedJob] = field(default_factory=list)
    error: ProviderError | None = None
    unasked: frozenset[Key] = frozenset()
    broke: Exception | None = None


@dataclass
class Counted:
    """What a round did at one account."""

    calls: int = 0
    asked: int = 0
    changed: int = 0
    not_found: int = 0
    lost: int = 0
    error: str = ""
    differences: list[Difference] = field(default_factory=list)


class Round:
    """One account in one round. `everything`: every open job, not only those that are due."""

    def __init__(self, provider: Provider, now: datetime, *, dry_run: bool, everything: bool) -> None:
        self.provider, self.now = provider, now
        self.dry_run, self.everything = dry_run, everything
        self.counted = Counted()
        self.broke: Exception | None = None
        self._news: list[ProviderUpdate] = []
        self._is_over = False
        self._after: Any = None
        self._lists = provider.lists()

    def stream(self) -> Stream:
        threads, depth = (2, 8) if self._lists else (4, 8)
        return Stream(f"poll-{self.provider.name}", self.claim, self.call, self.settle, threads=threads, depth=depth)

    def finish(self) -> None:
        """Raises what broke, for the operator's list of broken steps."""
        self._apply_news()
        if self.broke is not None:
            raise self.broke

    # --- which: in the looping thread -----------------------------------------------------------------------------

    def claim(self, free: int, _now: datetime) -> list[Ask]:
        if self._is_over:
            self._apply_news()
            return []
        size = (self.provider.jobs_per_listing or CHUNK) if self._lists else ONE_BY_ONE
        jobs = self._take(free * size, size if self._lists else 1)
        if not jobs:
            self._apply_news()
        parts = [jobs[at : at + size] for at in range(0, len(jobs), size)]
        return [Ask(tuple(part), tuple(ref_of(job, job.kind) for job in part)) for part in parts]

    def _take(self, most: int, per_call: int) -> list[Any]:
        """The next jobs, as many as the account's calls are enough for; their next poll is set."""
        with transaction.atomic():
            jobs = list(self._rows()[:most])
            if not jobs:
                return []
            calls = -(-len(jobs) // per_call)
            granted = account_limits.take_calls(self.provider.name, self.now, calls)
            self._is_over = granted < calls
            jobs = jobs[: granted * per_call]
            self._after = (jobs[-1].pk if self.everything else jobs[-1].next_poll_at) if jobs else self._after
            if not self.dry_run:
                rows = ExternalJob.objects.filter(pk__in=[job.pk for job in jobs])
                rows.update(next_poll_at=self.now + EVERY, last_polled_at=self.now)
        self.counted.calls += granted
        self.counted.asked += len(jobs)
        return jobs

    def _rows(self) -> Any:
        rows = ExternalJob.objects.filter(provider=self.provider.name, state=JobState.SUBMITTED)
        rows = rows.annotate(kind=F("task__kind"))
        if not self.dry_run:
            rows = rows.select_for_update(no_key=True, skip_locked=True, of=("self",))
        if self.everything:
            return (rows.filter(pk__gt=self._after) if self._after else rows).order_by("pk")
        rows = rows.filter(next_poll_at__lte=self.now)  # who waited longest first; no index entry is met twice
        return (rows.filter(next_poll_at__gte=self._after) if self._after else rows).order_by("next_poll_at")

    # --- the calls: in threads, without the database --------------------------------------------------------------

    def call(self, ask: Ask) -> Said:
        """Never raises. What waits for a thread when the round is over is not asked any more."""
        unasked = frozenset(map(_key, ask.refs))
        if self._is_over:
            return Said(unasked=unasked)
        try:
            return Said(self.provider.list_jobs(jobs=ask.refs)) if self._lists else self._singly(ask.refs)
        except ProviderError as error:
            self._is_over = True
            return Said(error=error, unasked=unasked)
        except Exception as error:
            self._is_over = True
            log.exception("poll_broke", provider=self.provider.name, error=type(error).__name__)
            return Said(broke=error, unasked=unasked)

    def _singly(self, refs: Sequence[JobRef]) -> Said:
        """One whose answer cannot be had is told so and keeps nobody back, unless it is a sign that all will be."""
        said, troubled, unasked = Said(), 0, set(map(_key, refs))
        for ref in refs:
            if self._is_over:
                break
            try:
                said.listed.append(ListedJob("", self.provider.readable_status(ref)))
                unasked.discard(_key(ref))
                troubled = 0
            except NotThere:
                unasked.discard(_key(ref))
            except ProviderError as error:
                troubled += 1
                log.warning("job_not_told", provider=self.provider.name, job=ref.job_id, error=error.code)
                is_its_own = isinstance(error, ProviderUnavailable) and not isinstance(error, NoAnswer)
                if not is_its_own or troubled >= TROUBLED:
                    self._is_over, said.error = True, error
        said.unasked = frozenset(unasked)
        return said

    # --- what comes of them: in the looping thread ----------------------------------------------------------------

    def settle(self, pairs: Sequence[tuple[Ask, Said]], _now: datetime) -> None:
        errors = [said.error for _, said in pairs if said.error is not None]
        for ask, said in pairs:
            self._note(ask, said)
            self._compare(ask, said)
        if errors and not self.dry_run:
            account_limits.hold_all(self.provider.name, errors, self.now, self.now)

    def _note(self, ask: Ask, said: Said) -> None:
        if said.error is None and said.broke is None:
            return
        self._is_over = True
        self.broke = said.broke or self.broke
        self.counted.error = said.error.code if said.error else "poll_broke"
        log.warning("poll_not_answered", provider=self.provider.name, jobs=len(ask.jobs), error=self.counted.error)

    def _compare(self, ask: Ask, said: Said) -> None:
        told = {_update_key(job): job.update for job in said.listed}
        found = [(job, told[job.job_id, job.item_key]) for job in ask.jobs if (job.job_id, job.item_key) in told]
        here = {job.pk for job, _ in found}
        missing = [job for job in ask.jobs if job.pk not in here and (job.job_id, job.item_key) not in said.unasked]
        self.counted.not_found += len(missing)
        if self.dry_run:
            self.counted.differences += [difference(job, update) for job, update in found if is_news(job, update)]
            self.counted.differences += [difference(job, None) for job in missing]
            return
        self._news += [update for job, update in found if is_news(job, update)]
        if len(self._news) >= CHUNK:
            self._apply_news()
        self.counted.lost += count_missing(missing, self.now)

    def _apply_news(self) -> None:
        """Together, since few of many jobs have any; at the latest when there is nothing more to ask about."""
        news, self._news = self._news, []
        self.counted.changed += apply_all(self.provider.name, news, self.now)


def _key(ref: JobRef) -> Key:
    return ref.job_id, ref.item_key


def _update_key(listed: ListedJob) -> Key:
    return listed.update.job_id, listed.update.item_key
