"""What one subscriber may hold of a worker: the rooms' arithmetic, the claim with rows, and a worker on sockets."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery import events
from delivery.engine import process
from delivery.engine.claiming import Claimer
from delivery.engine.drain import Drain
from delivery.engine.shares import SLOW_MEMORY_SECONDS, Shares
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.resolver import Resolver
from delivery.engine.transport.transfer import Transfers
from delivery.models import Delivery
from delivery.tests.engine.conftest import LOOPBACK


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rooms(quick: int = 200, waiting: int = 1000) -> tuple[Shares, Clock]:
    clock = Clock()
    shares = Shares(clock)
    shares.begin(quick, waiting)
    return shares, clock


def fill(shares: Shares, owner: str, endpoint: int, wanted: int, first: int) -> int:
    """Take what one claim gives; returns how much that was."""
    promises = shares.promises()
    given = promises.give(owner, endpoint, wanted)
    promises.took(owner, endpoint, given)
    for number in range(given):
        shares.started(first + number, owner, endpoint)
    return given


def fill_up(shares: Shares, clock: Clock, owner: str, endpoint: int, first: int = 0, seconds: int = 60) -> int:
    """One whose receiver never answers takes all it can get; returns how much that is."""
    total = 0
    for _ in range(seconds):
        total += fill(shares, owner, endpoint, 1000, first + total)
        clock.now += 1.0
        shares.look()
    return total


def test_one_alone_gets_three_quarters_of_the_quick_room():
    shares, _ = rooms()
    assert fill(shares, "acme", 1, 1000, 0) == 150


def test_what_waits_for_a_second_leaves_the_quick_room_and_takes_at_most_half_of_the_waiting_one():
    shares, clock = rooms()
    assert fill_up(shares, clock, "greedy", 1) == 500
    assert (shares.free, shares.waiting) == (200, 500)
    assert fill(shares, "healthy", 2, 1000, 10_000) == 150


def test_with_four_who_wait_some_of_the_waiting_room_stays_free():
    shares, clock = rooms()
    for second in range(60):
        for number in range(4):
            fill(shares, f"greedy {number}", number, 1000, 100_000 * number + 1000 * second)
        clock.now += 1.0
        shares.look()
    assert shares.free == 200
    assert fill_up(shares, clock, "a fifth", 5, first=10**8) >= 50


def test_an_endpoint_known_to_be_slow_never_enters_the_quick_room():
    shares, clock = rooms()
    fill(shares, "greedy", 1, 10, 0)
    clock.now += 2.0
    shares.look()
    fill(shares, "greedy", 1, 1000, 100)
    assert (shares.free, shares.waiting) == (200, 60)


def test_many_endpoints_of_one_subscriber_share_its_part_within_one_claim():
    shares, _ = rooms()
    promises, total = shares.promises(), 0
    for endpoint in range(100):
        given = promises.give("greedy", endpoint, 10)
        promises.took("greedy", endpoint, given)
        total += given
    assert total == 150


def test_an_endpoint_that_is_quick_again_is_forgiven():
    shares, clock = rooms()
    fill(shares, "acme", 1, 1, 0)
    clock.now += 1.5
    shares.ended(0)
    assert shares.is_slow(1)
    clock.now += SLOW_MEMORY_SECONDS + 1
    assert not shares.is_slow(1)


def test_without_a_waiting_room_the_slow_stay_in_the_quick_one():
    shares, clock = rooms(20, 0)
    assert fill(shares, "acme", 1, 10, 0) == 10
    clock.now += 2.0
    shares.look()
    assert (shares.free, shares.waiting) == (10, 0)
    assert fill(shares, "acme", 1, 10, 100) == 5


def test_a_delivery_that_comes_twice_is_counted_once():
    shares, _ = rooms(20, 20)
    shares.started(7, "acme", 1)
    shares.started(7, "acme", 1)
    shares.ended(7)
    shares.ended(7)
    assert (shares.free, shares.waiting) == (20, 0)


def test_without_slow_ones_nothing_is_given_to_them():
    shares, clock = rooms()
    fill(shares, "acme", 1, 1, 0)
    clock.now += 1.5
    shares.look()
    promises = shares.promises(slow_too=False)
    assert (promises.give("acme", 1, 5), promises.give("acme", 2, 5)) == (0, 5)


moves = st.lists(
    st.tuples(st.sampled_from(["claim", "end", "wait"]), st.integers(0, 5), st.integers(0, 11), st.integers(1, 300)),
    max_size=60,
)


@given(moves, st.integers(1, 200), st.integers(0, 300))
def test_whatever_happens_the_rooms_are_never_overfull_and_empty_at_the_end(done, quick, waiting):
    shares, clock = rooms(quick, waiting)
    in_air: list[int] = []
    number = 0
    for verb, owner, endpoint, count in done:
        if verb == "claim":
            given = fill(shares, f"owner {owner}", owner * 100 + endpoint, count, number)
            in_air += range(number, number + given)
            number += given
        elif verb == "end":
            for one in in_air[:count]:
                shares.ended(one)
            del in_air[:count]
        else:
            clock.now += count / 100
            shares.look()
        assert shares.free >= 0 and 0 <= shares.waiting <= waiting
        assert (quick - shares.free) + shares.waiting == len(in_air)
    for one in in_air:
        shares.ended(one)
    assert (shares.free, shares.waiting) == (quick, 0)


@given(st.integers(1, 12))
def test_however_many_are_greedy_a_new_one_finds_room_for_some(greedy):
    shares, clock = rooms()
    for second in range(30):
        for number in range(greedy):
            fill(shares, f"greedy {number}", number, 1000, 1_000_000 * number + 1000 * second)
        clock.now += 1.0
        shares.look()
    assert fill(shares, "healthy", 999, 1000, 10**9) >= 1


def test_the_files_a_process_may_open_bound_the_waiting_room(monkeypatch):
    asked = []
    monkeypatch.setattr(process.resource, "getrlimit", lambda _which: (256, 1024))
    monkeypatch.setattr(process.resource, "setrlimit", lambda _which, limits: asked.append(limits))
    assert process.room_for_waiting(1000, 840) == 184
    assert process.room_for_waiting(100, 200) == 100
    assert asked == [(1024, 1024), (300, 1024)]


# --- with rows ----------------------------------------------------------------------------------------------------


def record(subscriber: str, count: int) -> None:
    events.record_many([events.NewEvent("a.b", {"n": n}, subscriber) for n in range(count)])


@pytest.mark.django_db(transaction=True)
def test_a_claim_gives_a_subscriber_its_part_over_all_its_endpoints(make_endpoint):
    for _ in range(5):
        make_endpoint(subscriber="greedy", max_concurrency=1000)
    make_endpoint(subscriber="healthy", max_concurrency=1000)
    record("greedy", 60)  # 300 deliveries
    claimer = Claimer()
    claimer.shares.begin(40, 100)
    taken = []
    while True:
        claimed, _ = claimer.claim(claimer.shares.free, uuid.uuid4())
        if not claimed:
            break
        for one in claimed:
            claimer.shares.started(one.id, one.config.owner, one.config.id)
        taken += claimed
    assert len(taken) == 30  # three quarters of forty
    record("healthy", 3)
    claimed, _ = claimer.claim(claimer.shares.free, uuid.uuid4())
    assert {one.config.owner for one in claimed} == {"healthy"} and len(claimed) == 3


@pytest.mark.django_db(transaction=True)
def test_endpoints_without_a_subscriber_stand_for_themselves(make_endpoint):
    first, second = make_endpoint(subscriber=""), make_endpoint(subscriber="")
    events.record("a.b", {}, subscriber="")
    claimed, _ = Claimer().claim(10, uuid.uuid4())
    assert {one.config.owner for one in claimed} == {f"endpoint {first.pk}", f"endpoint {second.pk}"}


@pytest.mark.django_db(transaction=True)
def test_beside_a_receiver_that_takes_minutes_another_is_served_at_once(make_endpoint, sink):
    """On sockets: more are allowed to the slow one than the worker has slots; the healthy one's all come meanwhile."""
    make_endpoint(sink.answer("/slow", 200, wait=20.0), subscriber="greedy", max_concurrency=1000, timeout_ms=60_000)
    make_endpoint(sink.url + "/ok", subscriber="healthy")
    record("greedy", 60)
    config = TransferConfig(max_in_flight=12, max_waiting=24, allowed_networks=LOOPBACK)
    transfers = Transfers(Resolver(allowed_networks=LOOPBACK), config)
    stop = threading.Event()

    def is_served() -> bool:
        return Delivery.objects.filter(state="delivered", endpoint__subscriber="healthy").count() >= 40

    def offer() -> None:
        from django.db import connection

        try:
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline and sum(seen.path == "/slow" for seen in list(sink.seen)) < 9:
                time.sleep(0.05)
            for _ in range(40):
                record("healthy", 1)
                time.sleep(0.05)
            while time.monotonic() < deadline and not is_served():
                time.sleep(0.1)
        finally:
            stop.set()
            connection.close()

    offering = threading.Thread(target=offer)
    offering.start()
    try:
        Drain(transfers, Claimer(), should_stop=stop.is_set, grace_seconds=0.0).run()
    finally:
        offering.join()
        transfers.close()
    assert is_served()
    assert not Delivery.objects.filter(state="delivered", endpoint__subscriber="greedy").exists()
    assert 9 <= sum(seen.path == "/slow" for seen in sink.seen) <= 24


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_drains_budget_does_not_make_the_quick_wait_for_the_slow(make_endpoint, sink):
    make_endpoint(sink.answer("/slow", 200, wait=8.0), subscriber="greedy", timeout_ms=60_000)
    make_endpoint(sink.url + "/ok", subscriber="healthy")
    record("greedy", 2)
    config = TransferConfig(max_in_flight=12, max_waiting=24, allowed_networks=LOOPBACK)
    transfers = Transfers(Resolver(allowed_networks=LOOPBACK), config)
    slow_at_the_time: list[int] = []

    def offer() -> None:
        from django.db import connection

        try:
            time.sleep(3.0)  # beyond the budget
            record("greedy", 1)
            record("healthy", 5)
            deadline = time.monotonic() + 4.5
            while time.monotonic() < deadline and not slow_at_the_time:
                time.sleep(0.05)
                if Delivery.objects.filter(state="delivered", endpoint__subscriber="healthy").count() == 5:
                    slow = Delivery.objects.filter(endpoint__subscriber="greedy")
                    slow_at_the_time.extend(
                        [slow.filter(state="in_flight").count(), slow.filter(state="pending").count()]
                    )
        finally:
            connection.close()

    offering = threading.Thread(target=offer)
    offering.start()
    try:
        report = Drain(transfers, Claimer(), budget_seconds=2.0, linger_seconds=0.0).run()
    finally:
        offering.join()
        transfers.close()
    assert slow_at_the_time == [2, 1]  # the quick ones were served meanwhile, and no further slow one was begun
    assert report.more
