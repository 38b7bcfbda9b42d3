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
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.policy import signing
from delivery.policy.catalogue import ENDPOINT_TEST
from delivery.policy.outcomes import Failure
from delivery.states import AWAITS_TURN
from delivery.tests import factories

WHO = {"actor": "ada", "reason": "test"}
WAITING = ("pending", "failed")
FINAL = ("delivered", "dead_letter", "cancelled")
LARGE, MAX_BYTES = 70_000, 160_000
SEEDS, STEPS_EACH = 3, 60


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
}


class Everything:
    """One run. `held` is in the air at one living worker, `lost` in nobody's hands, `zombies` have lost their lease."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.held: list[Claimed] = []
        self.lost: list[Claimed] = []
        self.zombies: list[Claimed] = []
        self.large = 0
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

    def record(self) -> None:
        text = "x" * self.chance.choice([1, 1, LARGE])
        who = self.chance.choice(["plain", "ordered", "limited"])
        events.record_many([events.NewEvent("a.b", {"k": n % 2, "text": text}, who) for n in range(6)])

    def claim(self) -> None:
        shares = self.claimer.shares
        tests = set(EndpointHealth.objects.exclude(test_id=None).values_list("test_id", flat=True))
        slots, slow_too = min(self.chance.randint(1, 12), shares.free), self.chance.random() < 0.9
        taken, _ = self.claimer.claim(slots, uuid.uuid4(), self.large, slow_too=slow_too)
        is_held = dict(Endpoint.objects.values_list("pk", "is_held"))
        for one in taken:
            assert one.id in tests or not is_held[one.config.id]
            assert one.began_at and one.config.secret
            shares.started(one.id, one.config.owner, one.config.id)
        was = self.large
        self.large += sum(large_bytes_of(one.payload) for one in taken)
        assert self.large <= MAX_BYTES or (not was and len(taken) == 1)
        self.held += taken

    def settle(self) -> None:
        many = self.chance.randint(1, 8)
        batch, self.held = self.held[:many], self.held[many:]
        mood = self.chance.choice([["ok"], [*ANSWERS, *OTHERS], [self.chance.choice([*ANSWERS, *OTHERS])]])
        assert settle.settle(self.verdicts(batch, mood), Recorder(), "machine") == len(batch)

    def settle_plainly(self) -> None:
        if self.held:
            [verdict] = self.verdicts([self.held.pop()], [*ANSWERS, *OTHERS])
            assert settle.settle_plainly(verdict, Recorder(), "machine") == 1

    def a_zombie_settles(self) -> None:
        verdicts = [self.verdict(one, self.chance.choice([*ANSWERS])) for one in self.zombies]
        assert settle.settle(verdicts, Recorder(), "machine") == 0

    def a_worker_dies(self) -> None:
        self.lost, self.held = self.lost + self.held, []
        self.start_worker()

    def a_worker_gives_back(self) -> None:
        """A claim whose commit was not confirmed."""
        assert claims.release({one.token for one in self.held}) == len(self.held)
        self.held = []
        self.start_worker()

    def leases_end(self) -> None:
        Delivery.objects.filter(state="in_flight").update(leased_until=timezone.now() - timedelta(seconds=5))
        assert sweeps.rescue() == len(self.held) + len(self.lost)
        self.zombies += self.held + self.lost
        self.held, self.lost = [], []
        self.start_worker()

    def time_passes(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        for name in ("throttled_until", "probe_at", "probe_until", "pace_probe_until"):
            EndpointHealth.objects.exclude(**{name: None}).update(**{name: past})
        EndpointHealth.objects.exclude(tokens_at=None).update(tokens_at=past - timedelta(hours=1))
        Delivery.objects.filter(state__in=WAITING, next_attempt_at__lt=AWAITS_TURN).update(next_attempt_at=past)

    def a_verb_of_an_endpoint(self) -> None:
        # It may be disabled or deleted by now, or no pace be known.
        with contextlib.suppress(WrongState, Endpoint.DoesNotExist):
            VERBS[self.chance.choice([*VERBS])](self.by_name[self.chance.choice([*ENDPOINTS])])

    def an_endpoint_goes(self) -> None:
        with contextlib.suppress(WrongState):
            endpoints.delete(self.by_name[self.chance.choice(["plain", "limited"])], **WHO)

    def a_person_redrives_or_discards(self) -> None:
        ids = list(Delivery.objects.values_list("pk", flat=True))
        verb = self.chance.choice([lifecycle.redrive, lifecycle.redrive, lifecycle.discard])
        verb(self.chance.sample(ids, min(5, len(ids))), **WHO)

    def send_now(self) -> None:
        ids = list(Delivery.objects.filter(state__in=WAITING).values_list("pk", flat=True))
        with contextlib.suppress(WrongState, Delivery.DoesNotExist):
            lifecycle.send_now(self.chance.choice(ids or [0]), **WHO)

    def verdicts(self, batch: list[Claimed], among: list[str]) -> list[Verdict]:
        for one in batch:
            self.claimer.shares.ended(one.id)
            self.large -= large_bytes_of(one.payload)
        return [self.verdict(one, self.chance.choice(among)) for one in batch]

    def verdict(self, one: Claimed, answer: str) -> Verdict:
        rng = random.Random(0)
        if answer == "template":
            return refused_by_template(one, "data.x is missing")
        if answer == "unbuildable":
            return unbuildable(one, ValueError("x"), rng)
        return judge(one, TransferResult(Request("http://x/", key=one), total_ms=1.0, **ANSWERS[answer]), rng)

    # --- what always holds ------------------------------------------------------------------------------------------

    def what_is_in_flight_is_in_somebodys_hands(self) -> None:
        flying = dict(Delivery.objects.filter(state="in_flight").values_list("pk", "lease_token"))
        assert flying == {one.id: one.token for one in self.held + self.lost}
        assert not Delivery.objects.filter(state="in_flight", leased_until=None).exists()
        shares = self.claimer.shares
        assert shares._quick.total + shares._waiting.total == len(shares._held) == len(self.held)
        assert self.large == sum(large_bytes_of(one.payload) for one in self.held)

    def caps_and_order_are_kept(self) -> None:
        ordinary = Delivery.objects.filter(state="in_flight").exclude(event__type=ENDPOINT_TEST)
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

    def every_try_has_its_number(self) -> None:
        tries = dict(Delivery.objects.values_list("pk", "try_count"))
        cycles = dict(Delivery.objects.values_list("pk", "redrive_count"))
        numbers: dict[int, list[tuple[int, int]]] = {pk: [] for pk in tries}
        for pk, number, cycle in Attempt.objects.order_by("id").values_list("delivery_id", "number", "cycle"):
            numbers[pk].append((number, cycle))
        for pk, seen in numbers.items():
            assert [number for number, _ in seen] == list(range(1, tries[pk] + 1))
            assert all(before[1] <= after[1] <= cycles[pk] for before, after in pairwise(seen))

    def the_account_balances(self) -> None:
        today = account(timezone.now().date())
        assert today.balances, (today.lines, today.broken)
        for state, finished_at in Delivery.objects.values_list("state", "finished_at"):
            assert (finished_at is not None) == (state in FINAL)

    def check(self) -> None:
        self.what_is_in_flight_is_in_somebodys_hands()
        self.caps_and_order_are_kept()
        self.every_try_has_its_number()
        self.the_account_balances()

    def end(self) -> None:
        """Once the receivers are well and all switches are back, everything is delivered or was given up on purpose."""
        for endpoint in Endpoint.objects.filter(deleted_at=None):
            endpoints.enable(endpoint, **WHO)
            endpoints.resume(endpoint, **WHO)
        self.leases_end()
        for _ in range(300):
            sweeps.cancel_orphans()
            lifecycle.redrive(Delivery.objects.filter(state="dead_letter").values_list("pk", flat=True), **WHO)
            self.time_passes()
            self.claim()
            verdicts = self.verdicts(self.held, ["ok"])
            assert settle.settle(verdicts, Recorder(), "machine") == len(verdicts)
            self.held = []
            if not Delivery.objects.filter(state__in=WAITING).exists():
                break
        left = Delivery.objects.exclude(state__in=FINAL).values_list("pk", "state", "endpoint_id", "next_attempt_at")
        assert not left, list(left)
        assert not Delivery.objects.filter(endpoint__deleted_at=None, state="dead_letter").exists()
        self.check()


STEPS = {
    Everything.record: 6,
    Everything.claim: 16,
    Everything.settle: 12,
    Everything.settle_plainly: 2,
    Everything.a_zombie_settles: 1,
    Everything.a_worker_dies: 1,
    Everything.a_worker_gives_back: 1,
    Everything.leases_end: 1,
    Everything.time_passes: 8,
    Everything.a_verb_of_an_endpoint: 8,
    Everything.an_endpoint_goes: 0.1,
    Everything.a_person_redrives_or_discards: 2,
    Everything.send_now: 2,
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_in_whatever_order_nothing_is_lost_and_all_of_it_ends(seed: int) -> None:
    run = Everything(seed)
    for step in run.chance.choices([*STEPS], weights=[*STEPS.values()], k=STEPS_EACH):
        step(run)
        run.check()
    run.end()
