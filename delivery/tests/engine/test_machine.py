"""Claim, settle, crash, rescue, redrive and discard in any order, held against a small model on the real database."""

import random
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from delivery import events, lifecycle
from delivery.engine import claims, settle
from delivery.engine.claiming import Claimer
from delivery.engine.requests import Claimed
from delivery.engine.transport.messages import Request, TransferResult
from delivery.engine.verdicts import judge
from delivery.latency import Recorder
from delivery.maintenance import sweeps
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event, LatencyBucket, StatsMinute
from delivery.policy.outcomes import Failure

ANSWERS = {
    "ok": {"status": 200},
    "server_error": {"status": 500},
    "rejected": {"status": 400},
    "timeout": {"failure": Failure.TIMEOUT},
    "own_fault": {"failure": Failure.OWN_FAULT},
    "aborted": {"failure": Failure.ABORTED},
}
COSTS = {"ok": 1, "server_error": 1, "rejected": 1, "timeout": 1, "own_fault": 0, "aborted": 0}
MAX_ATTEMPTS = 3


class Deliveries(RuleBasedStateMachine):
    """`expected` is the model: id → [state, attempts, rescues in a row]. `held` is what workers believe is theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: dict[int, list] = {}
        self.held: list[Claimed] = []  # by living workers
        self.zombies: list[Claimed] = []  # leases that were lost
        self.dead_workers: list[Claimed] = []  # in flight in the database, in nobody's hands
        self.attempts = 0

    @initialize()
    def begin(self) -> None:
        for model in (Attempt, Delivery, Event, LatencyBucket, StatsMinute, EndpointHealth, Endpoint):
            model.objects.all().delete()
        for who in ("a", "b"):
            endpoint = Endpoint.objects.create(
                subscriber=who,
                url="http://x/",
                host="x",
                max_attempts=MAX_ATTEMPTS,
                retry_profile="custom",
                retry_delays=[0],
                max_concurrency=4,
                breaker_threshold=10_000,
                transient_codes=[],
            )
            EndpointHealth.objects.create(endpoint=endpoint)

    @rule(who=st.sampled_from("ab"), count=st.integers(1, 4))
    def record(self, who: str, count: int) -> None:
        made = events.record_many([events.NewEvent("a.b", {}, who) for _ in range(count)])
        for pk in Delivery.objects.filter(event__in=made).values_list("pk", flat=True):
            self.expected[pk] = ["pending", 0, 0]

    @rule(slots=st.integers(1, 6))
    def claim(self, slots: int) -> None:
        taken, _ = Claimer().claim(slots, uuid.uuid4())
        assert len(taken) <= slots
        for one in taken:
            state, attempts, rescues = self.expected[one.id]
            assert state in ("pending", "failed") and (one.attempt_count, one.rescue_count) == (attempts, rescues)
            self.expected[one.id][0] = "in_flight"
        self.held += taken

    @rule(slots=st.integers(1, 6))
    def die_after_a_claim(self, slots: int) -> None:
        self.claim(slots)
        self.dead_workers += self.held
        self.held = []

    @precondition(lambda self: self.held)
    @rule(data=st.data(), answer=st.sampled_from(sorted(ANSWERS)))
    def settle(self, data: st.DataObject, answer: str) -> None:
        count = data.draw(st.integers(1, len(self.held)))
        batch, self.held = self.held[:count], self.held[count:]
        assert self._settle(batch, answer) == count
        for one in batch:
            self._expect(one, answer)

    @precondition(lambda self: self.held)
    @rule(answer=st.sampled_from(sorted(ANSWERS)))
    def settle_twice(self, answer: str) -> None:
        """The commit went through, its answer was lost: the worker writes it again."""
        one = self.held.pop()
        assert (self._settle([one], answer), self._settle([one], "ok")) == (1, 0)
        self._expect(one, answer)

    @precondition(lambda self: self.zombies)
    @rule(answer=st.sampled_from(sorted(ANSWERS)))
    def a_zombie_settles(self, answer: str) -> None:
        assert self._settle(self.zombies, answer) == 0

    @rule()
    def all_leases_end(self) -> None:
        Delivery.objects.filter(state="in_flight").update(leased_until=timezone.now() - timedelta(seconds=5))
        lost = self.held + self.dead_workers
        assert sweeps.rescue() == len(lost)
        for one in lost:
            expected = self.expected[one.id]
            expected[2] += 1
            expected[0] = "dead_letter" if expected[2] >= 5 else "failed"
            self.attempts += 1
        self.zombies += lost
        self.held, self.dead_workers = [], []

    @rule()
    def a_worker_stops(self) -> None:
        assert claims.release({one.token for one in self.held}) == len(self.held)
        for one in self.held:
            first = one.attempt_count + one.throttle_count + one.rescue_count == 0
            self.expected[one.id][0] = "pending" if first else "failed"
        self.held = []

    @rule(verb=st.sampled_from([lifecycle.redrive, lifecycle.discard]), data=st.data())
    def an_operator_acts(self, verb, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.expected)), unique=True)) if self.expected else []
        states = ("dead_letter",) if verb is lifecycle.redrive else ("dead_letter", "pending", "failed")
        due = [pk for pk in ids if self.expected[pk][0] in states]
        assert verb(ids, actor="ada", reason="test") == len(due)
        for pk in due:
            if verb is lifecycle.redrive:
                self.expected[pk] = ["pending", 0, 0]
            else:
                self.expected[pk][0] = "cancelled"
        # A redrive makes a settled delivery claimable again, but never under an old lease.

    @rule(who=st.sampled_from("ab"), paused=st.booleans())
    def pause_or_resume(self, who: str, paused: bool) -> None:
        Endpoint.objects.filter(subscriber=who).update(
            paused_at=timezone.now() if paused else None, attention_at=None, hold_reason=""
        )
        EndpointHealth.objects.filter(endpoint__subscriber=who).update(refusal_count=0)

    def _settle(self, batch: list[Claimed], answer: str) -> int:
        verdicts = []
        for one in batch:
            result = TransferResult(Request("http://x/", key=one), total_ms=1.0, **ANSWERS[answer])
            verdicts.append(judge(one, result, random.Random(0)))
        return settle.settle(verdicts, Recorder(), "machine")

    def _expect(self, one: Claimed, answer: str) -> None:
        expected = self.expected[one.id]
        expected[1] += COSTS[answer]
        self.attempts += 1
        if answer == "ok":
            expected[0] = "delivered"
        elif answer == "rejected" or (COSTS[answer] and expected[1] >= MAX_ATTEMPTS):
            expected[0] = "dead_letter"
        elif answer == "aborted" and one.attempt_count + one.throttle_count + one.rescue_count == 0:
            expected[0] = "pending"
        else:
            expected[0] = "failed"
        if answer not in ("own_fault", "aborted"):
            expected[2] = 0

    @invariant()
    def the_rows_are_what_the_model_says(self) -> None:
        rows = Delivery.objects.values_list(
            "pk", "state", "attempt_count", "rescue_count", "lease_token", "finished_at"
        )
        tokens = {one.id: one.token for one in self.held + self.dead_workers}
        found = {}
        for pk, state, attempts, rescues, token, finished_at in rows:
            found[pk] = [state, attempts, rescues]
            assert token == tokens.get(pk)
            assert (finished_at is not None) == (state in ("delivered", "dead_letter", "cancelled"))
        assert found == self.expected
        assert Attempt.objects.count() == self.attempts


@pytest.mark.django_db(transaction=True)
def test_any_order_of_events_keeps_the_model() -> None:
    run_state_machine_as_test(
        Deliveries,
        settings=settings(
            max_examples=20,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
