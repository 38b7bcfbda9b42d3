"""The poll of an account whose jobs may carry many of our tasks: each job is asked about once, for all of its items."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import F, Q

from tasks.accounts import limits as account_limits
from tasks.external.comparing import EVERY, apply_all, count_missing, difference, is_news
from tasks.external.polling import CHUNK, Ask, Round, Said
from tasks.models import ExternalJob
from tasks.providers.base import Provider, ProviderUpdate
from tasks.states import JobState


class SharedRound(Round):
    """Its rows of one job are moved, read and compared together; of an `Ask`, each job stands for all of its items."""

    def __init__(self, provider: Provider, now: datetime, *, dry_run: bool, everything: bool) -> None:
        super().__init__(provider, now, dry_run=dry_run, everything=everything)
        self._asked: set[str] = set()

    def _take(self, most: int, per_call: int) -> list[Any]:
        due = self._open()
        if not self.everything:
            due = due.filter(next_poll_at__lte=self.now)
        due = due.exclude(job_id__in=self._asked).annotate(kind=F("task__kind"))
        jobs = list(due.order_by("job_id", "pk").distinct("job_id")[:most])
        if not jobs:
            return []
        calls = -(-len(jobs) // per_call)
        granted = account_limits.take_calls(self.provider.name, self.now, calls)
        self._is_over = granted < calls
        jobs = jobs[: granted * per_call]
        names = [job.job_id for job in jobs]
        self._asked.update(names)
        if not self.dry_run:
            self._open().filter(job_id__in=names).update(next_poll_at=self.now + EVERY)
        self.counted.calls += granted
        self.counted.asked += len(jobs)
        for job in jobs:
            job.item_key = ""  # asked about as a whole
        return jobs

    def _open(self) -> Any:
        return ExternalJob.objects.filter(provider=self.provider.name, state=JobState.SUBMITTED)

    def _compare(self, ask: Ask, said: Said) -> None:
        told: dict[str, dict[str, ProviderUpdate]] = {}
        for listed in said.listed:
            item = "" if listed.update.means_all_items else listed.update.item_key
            told.setdefault(listed.update.job_id, {})[item] = listed.update
        unasked = {job_id for job_id, _ in said.unasked}
        for job in ask.jobs:
            if updates := told.get(job.job_id):
                self._apply_to_all(job.job_id, updates)
            elif job.job_id not in unasked:
                self._all_missing(job.job_id)

    def _apply_to_all(self, job_id: str, updates: dict[str, ProviderUpdate]) -> None:
        """`updates` by item; the one under "" is said of every item that has none of its own."""
        rows = self._open().filter(job_id=job_id)
        if not self.dry_run:
            rows.update(last_polled_at=self.now)
        whole = updates.get("")
        if whole is not None and len(updates) == 1 and not whole.problem:
            rows = rows.filter(~Q(provider_status=whole.raw_status[:60]) | Q(poll_misses__gt=0))
        for part in _parts(rows):
            found = [(job, said) for job in part if (said := updates.get(job.item_key) or whole) is not None]
            news = [(job, replace(said, item_key=job.item_key)) for job, said in found if is_news(job, said)]
            if self.dry_run:
                self.counted.differences += [difference(job, said) for job, said in news]
            else:
                self.counted.changed += apply_all(self.provider.name, [said for _, said in news], self.now)

    def _all_missing(self, job_id: str) -> None:
        for part in _parts(self._open().filter(job_id=job_id)):
            self.counted.not_found += len(part)
            if self.dry_run:
                self.counted.differences += [difference(job, None) for job in part]
                continue
            ExternalJob.objects.filter(pk__in=[job.pk for job in part]).update(last_polled_at=self.now)
            self.counted.lost += count_missing(part, self.now)


def _parts(rows: Any) -> Iterator[list[ExternalJob]]:
    """A bounded number of rows at a time."""
    after = 0
    while part := list(rows.filter(pk__gt=after).order_by("pk")[:CHUNK]):
        after = part[-1].pk
        yield part
