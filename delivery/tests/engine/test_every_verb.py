"""Claims, answers of every sort, crashes and all verbs of people in any order: nothing is lost, and all of it ends."""

from __future__ import annotations

import contextlib
import random
import uuid
from collections import Counter
from datetime import timedelta
from itertools import pairwise

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

from delivery import endpoints, events, lifecycle
from delivery.engine import claims, settle
from delivery.engine.claiming import Claimer, large_bytes_of
from delivery.engine.requests import Claimed
from delivery.engine.transport.messages import Request, TransferResult
from delivery.engine.verdicts import Verdict, judge, refused_by_template, unbuildable
from delivery.errors import WrongState
from delivery.latency import Recorder
from delivery.maintenance import sweeps
from delivery.maintenance.accounting import account
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event, LatencyBucket, StatsMinute
from delivery.policy import signing
from delivery.policy.outcomes import Failure
from delivery.states import AWAITS_TURN
from delivery.tests import factories

WHO = {"actor": "ada", "reason": "test"}
WAITING = ("pending", "failed")
FINAL = ("delivered", "dead_letter", "cancelled")
LARGE, MAX_BYTES = 70_000, 160_000
MOST_RUNS = 12


def throttled(hint: bytes) -> dict:
    return {"status": 429, "raw_headers": [b"HTTP/1.1 429", b"retry-after: " + hint]}


ANSWERS: dict[str, dict] = {
    "ok": {"status": 200},
    "broken": {"status": 500},
    "refused": {"status": 401},
    "gone": {"status": 410},
    "wait an hour": throttled(b"3600"),
    "wait no time": throttled(b"0"),
    "timeout": {"failure": Failure.TIMEOUT},
    "stopped": {"failure": Failure.ABORTED},
    "no names": {"failure": Failure.OWN_FAULT, "rule": "name_service"},
    "certificate": {"failure": Failure.OWN_FAULT, "rule": "client_certificate"},
}
OTHERS = ("template", "unbuildable")
ENDPOINTS = {
    "plain": {"max_concurrency": 4, "max_attempts": 3},
    "ordered": {"ordering_key": "data.k", "max_concurrency": 3, "max_attempts": 2},
    "limited": {"rate_per_minute": 6_000, "rate_burst": 2, "breaker_threshold": 2, "timeout_ms": 60_000},
    "": {"retry_profile": "custom", "retry_delays": [0]},  # the operators' own: it is told of holds
}
VERBS = {
    "pause": lambda endpoint: endpoints.pause(endpoint, **WHO),
    "resume": lambda endpoint: endpoints.resume(endpoint, **WHO),
    "enable": lambda endpoint: endpoints.enable(endpoint, **WHO),
    "lift": lambda endpoint: endpoints.lift_throttle(endpoint, **WHO),
    "fix": lambda endpoint: endpoints.fix_rate(endpoint, **WHO),
    "test": lambda endpoint: endpoints.send_test(endpoint, **WHO),
    "rotate": lambda endpoint: endpoints.rotate_secret(endpoint, overlap=timedelta(0), **WHO),
    "new url": lambda endpoint: endpoints.update(endpoint, {"url": f"https://8.8.8.8/{uuid.uuid4()}"}, **WHO),
    "order": lambda endpoint: endpoints.update(endpoint, {"ordering_key": "data.k"}, **WHO),
    "no order": lambda endpoint: endpoints.update(endpoint, {"ordering_key": ""}, **WHO),
    "sooner": lambda endpoint: endpoints.update(endpoint, {"retry_profile": "custom", "retry_delays": [1]}, **WHO),
    "replay": lambda endpoint: endpoints.replay(endpoint, since=timezone.now() - timedelta(hours=1), limit=3, **WHO),
    "cancel": lambda endpoint: lifecycle.cancel_for_endpoint(endpoint.pk, limit=3, **WHO),
    "delete": lambda endpoint: endpoints.delete(endpoint, **WHO),
}


class Everything(RuleBasedStateMachine):
    """`held` is in the air at one living worker, `lost` in nobody's hands, `zombies` have lost their lease."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Claimed] = []
        self.lost: list[Claimed] = []
        self.zombies: list[Claimed] = []
        self.large = 0

    @initialize()
    def begin(self) -> None:
        for model in (Attempt, Delivery, Event, LatencyBucket, StatsMinute, EndpointHealth, Endpoint):
            model.objects.all().delete()
        self.by_name = {
            who: factories.endpoint(subscriber=who, url="https://8.8.8.8/", secret=signing.new_secret()[0], **values)
            for who, values in ENDPOINTS.items()
        }
        self.start_worker()

    def start_worker(self) -> None:
        self.claimer = Claimer(max_bytes=MAX_BYTES)
        self.claimer.shares.begin(12, 6)
        self.large = 0

    # --- what happens -----------------------------------------------------------------------------------------------

    @rule(who=st.sampled_from(["plain", "ordered", "limited"]), count=st.integers(1, 6), large=st.booleans())
    def record(self, who: str, count: int, large: bool) -> None:
        text = "x" * LARGE if large else ""
        events.record_many([events.NewEvent("a.b", {"k": n % 2, "text": text}, who) for n in range(count)])

    @rule(slots=st.integers(1, 12), slow_too=st.booleans())
    def claim(self, slots: int, slow_too: bool) -> None:
        shares = self.claimer.shares
        tests = set(EndpointHealth.objects.exclude(test_id=None).values_list("test_id", flat=True))
        token = uuid.uuid4()
        taken, _ = self.claimer.claim(min(slots, shares.free), token, self.large, slow_too=slow_too)
        is_held = dict(Endpoint.objects.values_list("pk", "is_held"))
        for one in taken:
            assert one.id in tests or not is_held[one.config.id]
            assert one.began_at and one.config.secret
            shares.started(one.id, one.config.owner, one.config.id)
        was = self.large
        self.large += sum(large_bytes_of(one.payload) for one in taken)
        assert self.large <= MAX_BYTES or (not was and len(taken) == 1)
        self.held += taken

    @precondition(lambda self: self.held)
    @rule(answers=st.lists(st.sampled_from([*ANSWERS, *OTHERS]), min_size=1, max_size=8))
    def settle(self, answers: list[str]) -> None:
        batch, self.held = self.held[: len(answers)], self.held[len(answers) :]
        assert settle.settle(self.verdicts(batch, answers), Recorder(), "machine") == len(batch)

    @precondition(lambda self: self.held)
    @rule(answer=st.sampled_from([*ANSWERS, *OTHERS]))
    def settle_plainly(self, answer: str) -> None:
        [verdict] = self.verdicts([self.held.pop()], [answer])
        assert settle.settle_plainly(verdict, Recorder(), "machine") == 1

    @precondition(lambda self: self.zombies)
    @rule(answer=st.sampled_from([*ANSWERS]))
    def a_zombie_settles(self, answer: str) -> None:
        verdicts = [self.verdict(one, answer) for one in self.zombies]
        assert settle.settle(verdicts, Recorder(), "machine") == 0

    @rule()
    def a_worker_dies(self) -> None:
        self.lost, self.held = self.lost + self.held, []
        self.start_worker()

    @precondition(lambda self: self.held)
    @rule()
    def a_worker_gives_back(self) -> None:
        """A claim whose commit was not confirmed."""
        assert claims.release({one.token for one in self.held}) == len(self.held)
        self.held = []
        self.start_worker()

    @rule()
    def leases_end(self) -> None:
        Delivery.objects.filter(state="in_flight").update(leased_until=timezone.now() - timedelta(seconds=5))
        assert sweeps.rescue() == len(self.held) + len(self.lost)
        self.zombies += self.held + self.lost
        self.held, self.lost = [], []
        self.start_worker()

    @rule()
    def time_passes(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        for name in ("throttled_until", "probe_at", "probe_until", "pace_probe_until", "tokens_at"):
            EndpointHealth.objects.exclude(**{name: None}).update(**{name: past})
        Delivery.objects.filter(state__in=WAITING, next_attempt_at__lt=AWAITS_TURN).update(next_attempt_at=past)

    @rule(who=st.sampled_from([*ENDPOINTS]), verb=st.sampled_from([verb for verb in VERBS if verb != "delete"]))
    def a_verb_of_an_endpoint(self, who: str, verb: str) -> None:
        # It may be disabled or deleted by now, or no pace be known.
        with contextlib.suppress(WrongState, Endpoint.DoesNotExist):
            VERBS[verb](self.by_name[who])

    @precondition(lambda self: Delivery.objects.count() > 15)
    @rule(who=st.sampled_from(["plain", "limited"]))
    def an_endpoint_goes(self, who: str) -> None:
        self.a_verb_of_an_endpoint(who, "delete")

    @rule(verb=st.sampled_from([lifecycle.redrive, lifecycle.discard]), seed=st.integers(0, 99))
    def a_verb_of_deliveries(self, verb, seed: int) -> None:
        ids = list(Delivery.objects.values_list("pk", flat=True))
        verb(random.Random(seed).sample(ids, min(5, len(ids))), **WHO)

    @rule(seed=st.integers(0, 99))
    def send_now(self, seed: int) -> None:
        ids = list(Delivery.objects.filter(state__in=WAITING).values_list("pk", flat=True))
        with contextlib.suppress(WrongState, Delivery.DoesNotExist):
            lifecycle.send_now(random.Random(seed).choice(ids or [0]), **WHO)

    def verdicts(self, batch: list[Claimed], answers: list[str]) -> list[Verdict]:
        for one in batch:
            self.claimer.shares.ended(one.id)
            self.large -= large_bytes_of(one.payload)
        return [self.verdict(one, answer) for one, answer in zip(batch, answers, strict=False)]

    def verdict(self, one: Claimed, answer: str) -> Verdict:
        rng = random.Random(0)
        if answer == "template":
            return refused_by_template(one, "data.x is missing")
        if answer == "unbuildable":
            return unbuildable(one, ValueError("x"), rng)
        return judge(one, TransferResult(Request("http://x/", key=one), total_ms=1.0, **ANSWERS[answer]), rng)

    # --- what always holds ------------------------------------------------------------------------------------------

    @invariant()
    def what_is_in_flight_is_in_somebodys_hands(self) -> None:
        flying = dict(Delivery.objects.filter(state="in_flight").values_list("pk", "lease_token"))
        assert flying == {one.id: one.token for one in self.held + self.lost}
        assert not Delivery.objects.filter(state="in_flight", leased_until=None).exists()
        shares = self.claimer.shares
        assert shares._quick.total + shares._waiting.total == len(shares._held) == len(self.held)
        assert self.large == sum(large_bytes_of(one.payload) for one in self.held)

    @invariant()
    def caps_and_order_are_kept(self) -> None:
        ordinary = Delivery.objects.filter(state="in_flight").exclude(event__type=endpoints.TEST_EVENT)
        flying = Counter(ordinary.values_list("endpoint_id", flat=True))
        for who, endpoint in self.by_name.items():
            assert flying[endpoint.pk] <= ENDPOINTS[who].get("max_concurrency", 20)
        unfinished = Delivery.objects.exclude(ordering_key="").filter(state__in=[*WAITING, "in_flight", "dead_letter"])
        firsts: dict[tuple[int, str], int] = {}
        for pk, endpoint_id, key, state, due in unfinished.order_by("pk").values_list(
            "pk", "endpoint_id", "ordering_key", "state", "next_attempt_at"
        ):
            first = firsts.setdefault((endpoint_id, key), pk)
            assert state != "in_flight" or first == pk
            assert not (first == pk and state in WAITING and due >= AWAITS_TURN), "parked behind nothing"
        assert not Delivery.objects.filter(ordering_key="", next_attempt_at__gte=AWAITS_TURN, state__in=WAITING)

    @invariant()
    def every_try_has_its_number(self) -> None:
        tries = dict(Delivery.objects.values_list("pk", "try_count"))
        cycles = dict(Delivery.objects.values_list("pk", "redrive_count"))
        numbers: dict[int, list[tuple[int, int]]] = {pk: [] for pk in tries}
        for pk, number, cycle in Attempt.objects.order_by("id").values_list("delivery_id", "number", "cycle"):
            numbers[pk].append((number, cycle))
        for pk, seen in numbers.items():
            assert [number for number, _ in seen] == list(range(1, tries[pk] + 1))
            assert all(before[1] <= after[1] <= cycles[pk] for before, after in pairwise(seen))

    @invariant()
    def the_account_balances(self) -> None:
        today = account(timezone.now().date())
        assert today.balances, (today.lines, today.broken)
        for state, finished_at in Delivery.objects.values_list("state", "finished_at"):
            assert (finished_at is not None) == (state in FINAL)

    def teardown(self) -> None:
        """Once the receivers are well and all switches are back, everything is delivered or was given up on purpose."""
        if not hasattr(self, "by_name"):
            return
        for endpoint in Endpoint.objects.filter(deleted_at=None):
            endpoints.enable(endpoint, **WHO)
            endpoints.resume(endpoint, **WHO)
        sweeps.cancel_orphans()
        self.leases_end()
        for _ in range(200):
            sweeps.cancel_orphans()
            lifecycle.redrive(Delivery.objects.filter(state="dead_letter").values_list("pk", flat=True), **WHO)
            self.time_passes()
            self.claim(12, True)
            self.what_is_in_flight_is_in_somebodys_hands()
            if self.held:
                self.settle(["ok"] * len(self.held))
            elif not Delivery.objects.filter(state__in=WAITING).exists():
                break
        left = Delivery.objects.exclude(state__in=FINAL).values_list("pk", "state", "endpoint_id", "next_attempt_at")
        assert not left, list(left)
        alive = Delivery.objects.filter(endpoint__deleted_at=None)
        assert not alive.filter(state="dead_letter").exists()
        self.the_account_balances()


@pytest.mark.django_db(transaction=True)
def test_whatever_happens_in_whatever_order_nothing_is_lost_and_all_of_it_ends() -> None:
    run_state_machine_as_test(
        Everything,
        settings=settings(
            max_examples=MOST_RUNS,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
