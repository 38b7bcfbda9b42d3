"""The lifecycle against its rules: whatever happens in whatever order, the books are right.

Random stories of starts, provider words (duplicated, late, of old jobs), fetches, cancels, redrives, discards, crashes
and rescues over one batch. After every step: counters equal a recount, each transition is in the table and follows the
one before, no provider's word moved a task backwards, and each end was announced exactly once.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from delivery.models import Event
from tasks.engine import clock, lifecycle, rescue
from tasks.engine.announcements import TASK_EVENTS
from tasks.external import apply_many, fetching, starting
from tasks.models import Batch, ExternalJob, Task, Transition
from tasks.providers.base import (
    NotThere,
    OutcomeUnknown,
    ProviderRejected,
    ProviderThrottled,
    ProviderUpdate,
    StartedJob,
)
from tasks.states import FINAL_STATES, Cause, JobStatus, State
from tasks.submit import submit_batch
from tasks.tests import drive

SIZE = 3
FORWARD = {
    ("running", "fetching"),
    ("running", "retrying"),  # the provider says: failed
    ("running", "dead_letter"),
    ("running", "cancelled"),
}
EDGES = {(source, (step.target or source)) for step in lifecycle.TABLE for source in step.sources}
STATUSES = st.sampled_from(list(JobStatus))
WHICH = st.integers(0, SIZE - 1)
SAY = st.tuples(st.just("say"), st.integers(0, 5), STATUSES, st.integers(0, 100), st.sampled_from(["webhook", "poll"]))
STEPS = st.one_of(  # what leads far into the story comes often
    st.tuples(st.just("start"), st.sampled_from(["ok", "ok", "ok", "ok", "unknown", "throttled", "rejected"])),
    st.tuples(st.just("start"), st.just("ok")),
    SAY,
    SAY,
    st.tuples(st.just("say"), WHICH, st.just(JobStatus.RUNNING), st.integers(0, 100), st.just("webhook")),
    st.tuples(st.just("say"), WHICH, st.just(JobStatus.SUCCEEDED), st.just(100), st.just("webhook")),
    st.tuples(st.just("say"), WHICH, st.just(JobStatus.SUCCEEDED), st.just(100), st.just("poll")),
    st.tuples(st.just("fetch"), st.sampled_from(["good", "bad", "missing", "abandoned"])),
    st.tuples(st.just("fetch"), st.sampled_from(["good", "abandoned"])),
    st.tuples(st.just("finish")),
    st.tuples(st.just("cancel"), WHICH),
    st.tuples(st.just("redrive"), WHICH),
    st.tuples(st.just("discard"), WHICH),
    st.tuples(st.just("later"), st.integers(1, 1000)),
    st.tuples(st.just("wake_zombies")),
)


class Story:
    """One batch, and a clock of its own."""

    def __init__(self) -> None:
        items = [{"input": {"business": {"name": f"Bar {n}"}}} for n in range(SIZE)]
        self.batch = submit_batch("scoring", items, caller="t")
        self.ids = list(self.batch.tasks.order_by("pk").values_list("pk", flat=True))
        self.now: datetime = clock.now()
        self.number = 0
        self.completions = 0
        self.is_done = False
        self.zombies: list[fetching.Fetch] = []

    def step(self, name: str, *arguments: Any) -> None:
        verb: Callable[..., None] = getattr(self, name)
        verb(*arguments)

    def start(self, outcome: str) -> None:
        for start in starting.claim("scoring", 2, self.now):
            starting.settle(
                start, {job.reference: self._outcome(outcome, job.reference) for job in start.jobs}, self.now
            )

    def _outcome(self, word: str, reference: str) -> Any:
        self.number += 1
        return {
            "ok": StartedJob(reference, f"job_{self.number}"),
            "unknown": OutcomeUnknown("cut off"),
            "throttled": ProviderThrottled("slowly", 1.0),
            "rejected": ProviderRejected("no"),
        }[word]

    def say(self, which: int, status: JobStatus, progress: int, cause: str) -> None:
        jobs = list(ExternalJob.objects.exclude(job_id="").order_by("pk"))
        if not jobs:
            return
        job = jobs[which % len(jobs)]
        before = Task.objects.get(pk=job.task_id)
        update = ProviderUpdate(job.job_id, status=status, raw_status=status.value, progress=progress)
        (answer,) = apply_many([update], provider="sandbox", cause=Cause(cause), now=self.now)
        after = Task.objects.get(pk=job.task_id)
        if answer.status == "ignored":
            assert (after.state, after.progress) == (before.state, before.progress) and answer.reason
        elif after.state == State.RUNNING:
            assert after.progress >= before.progress
        elif answer.status == "accepted":
            assert (before.state, after.state) == (State.RUNNING, State.FETCHING)

    def fetch(self, outcome: str) -> None:
        results = {
            "good": fetching.Fetched({"score": 50}),
            "bad": fetching.Fetched({"score": 500}),
            "missing": fetching.Fetched(error=NotThere("gone")),
        }
        claimed = fetching.claim("scoring", 2, self.now)
        if outcome not in results:
            self.zombies += claimed
        elif claimed:
            fetching.settle([(fetch, results[outcome]) for fetch in claimed], self.now)

    def wake_zombies(self) -> None:
        """Fetches whose leases have expired come back after all: they write nothing."""
        self.later(91)
        before = list(Task.objects.order_by("pk").values_list("state", "updated_at"))
        fetching.settle([(fetch, fetching.Fetched({"score": 1})) for fetch in self.zombies], self.now)
        assert list(Task.objects.order_by("pk").values_list("state", "updated_at")) == before
        self.zombies = []

    def finish(self) -> None:
        """All goes well for a while: what waits starts, what runs completes, what is completed is fetched."""
        self.later(1000)
        self.start("ok")
        for which in range(ExternalJob.objects.count()):
            self.say(which, JobStatus.SUCCEEDED, 100, "webhook")

    def cancel(self, which: int) -> None:
        lifecycle.cancel([self.ids[which]], actor="me", reason="", now=self.now)

    def redrive(self, which: int) -> None:
        lifecycle.redrive([self.ids[which]], actor="me", reason="", now=self.now)

    def discard(self, which: int) -> None:
        lifecycle.discard([self.ids[which]], actor="me", reason="", now=self.now)

    def later(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        rescue.expired_leases(self.now)

    # --- what must hold after every step

    def check(self) -> None:
        batch = Batch.objects.get(pk=self.batch.pk)
        assert batch.counts == drive.recount(batch.pk)
        all_final = all(state in FINAL_STATES for state in batch.counts)
        assert batch.is_completed == all_final == bool(batch.outcome)
        self.completions += all_final and not self.is_done
        self.is_done = all_final
        assert Event.objects.filter(type="batch.completed").count() == batch.revision == self.completions
        ends: Counter[str] = Counter()
        for task in Task.objects.filter(pk__in=self.ids):
            self._check_story(task)
        for state in Transition.objects.filter(task__batch=batch, to_state__in=FINAL_STATES).values_list(
            "to_state", flat=True
        ):
            ends[TASK_EVENTS[state]] += 1
        told = Counter(Event.objects.filter(type__startswith="task.").values_list("type", flat=True))
        assert told == ends

    @staticmethod
    def _check_story(task: Task) -> None:
        rows = list(task.transitions.order_by("pk"))
        assert rows[-1].to_state == task.state
        for before, after in pairwise(rows):
            assert before.to_state == after.from_state
            edge = (after.from_state, after.to_state)
            assert edge in EDGES and after.from_state not in (State.SUCCEEDED, State.CANCELLED)
            if after.cause in (Cause.WEBHOOK, Cause.POLL):
                assert edge in FORWARD
        assert (task.lease_token is None) == (task.leased_until is None)
        assert task.attempt_count <= task.attempt_limit
        assert (task.result is not None) == (task.state == State.SUCCEEDED)


@pytest.mark.django_db
@pytest.mark.usefixtures("unreachable_sandbox")
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking a story against a database takes many minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(STEPS, min_size=12, max_size=35))
def test_the_books_are_right_whatever_happens(steps: list[tuple[Any, ...]]) -> None:
    with transaction.atomic():
        story = Story()
        story.check()
        for step in steps:
            story.step(*step)
            story.check()
        transaction.set_rollback(True)
