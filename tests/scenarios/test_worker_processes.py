"""Real worker processes, each its own host's worth: limits kept together, deaths and restarts that lose nothing."""

import random
import signal
import time
from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import events
from delivery.models import Attempt, Delivery
from tests.e2e.system import wait_for
from tests.scenarios.gauge import gauge
from tests.scenarios.workers import beat, workers

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]


def record(count: int, prefix: str = "e") -> list[str]:
    made = [events.NewEvent("a.b", {"n": n}, "acme", uid=f"{prefix}{n}") for n in range(count)]
    return [event.uid for event in events.record_many(made)]


def sent_by(pid: int) -> int:
    return Attempt.objects.filter(worker__contains=f":{pid}:").count()


def finished(count: int, seconds: float = 120) -> None:
    """Until so many are delivered, with a beat meanwhile."""

    def look() -> bool:
        beat()
        return Delivery.objects.filter(state="delivered").count() == count

    try:
        wait_for(look, seconds, f"{count} deliveries", every=0.3)
    except AssertionError as error:
        states = Counter(Delivery.objects.values_list("state", "last_outcome"))
        raise AssertionError(f"{error}; they stand so: {states}") from None


def both_at_work(endpoint, pids: list[int]) -> int:
    """A trickle to another endpoint until each of these workers has sent something; returns how many it took."""
    count = 0

    def look() -> bool:
        nonlocal count
        count += len(events.record_many([events.NewEvent("a.b", {}, endpoint.subscriber) for _ in range(3)]))
        beat()
        return all(sent_by(pid) for pid in pids)

    wait_for(look, 90, "both workers to send", every=0.2)
    return count


def test_two_hosts_keep_one_endpoints_cap_and_rate_together(make_endpoint, sink, tmp_path):
    cap, rate, burst, slow, count = 5, 120, 4, 10, 26
    # The first ones are answered late, so that the cap is what limits; then the rate is.
    with gauge(lambda number: 4.0 if number < slow else 0.0) as receiver:
        endpoint = make_endpoint(receiver.url + "/", max_concurrency=cap, rate_per_minute=rate, rate_burst=burst)
        with workers(tmp_path / "one") as one, workers(tmp_path / "two") as other:
            pids = [host.start().pid for host in (one, other)]
            warm = both_at_work(make_endpoint(sink.url + "/", subscriber="warm"), pids)
            began = time.monotonic()
            uids = record(count)
            finished(count + warm)
    assert sorted(receiver.ids) == sorted(uids)
    assert receiver.most_open <= cap
    # What came in up to any moment: no more than the full bucket and what has flowed into it since.
    for number, at in enumerate(receiver.at, 1):
        assert number <= burst + rate / 60 * (at - began)
    # And between any two, by the database's clock at the claim.
    attempts = Attempt.objects.filter(endpoint=endpoint)
    claimed = sorted(attempts.values_list("started_at", flat=True))
    for first, start in enumerate(claimed):
        for last in range(first, count):
            passed = (claimed[last] - start).total_seconds()
            assert last - first + 1 <= burst + rate / 60 * passed + 0.01


def test_a_worker_killed_in_mid_request_costs_one_repetition_with_the_same_id(make_endpoint, tmp_path):
    with gauge(lambda number: 60.0 if number == 0 else 0.0) as receiver, workers(tmp_path) as group:
        make_endpoint(receiver.url + "/", timeout_ms=90_000)
        first = group.start()
        (uid,) = record(1)
        wait_for(lambda: beat() or receiver.ids, 60, "the request to be in the air", every=0.3)
        assert group.stop(first, signal.SIGKILL) == -signal.SIGKILL
        left = Delivery.objects.get()
        assert left.state == "in_flight" and left.leased_until > timezone.now()
        group.start()
        Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=2))  # the lease's time passes
        finished(1)
    assert receiver.ids == [uid, uid]
    row = Delivery.objects.get()
    assert (row.attempt_count, row.rescue_count) == (1, 0)
    assert list(Attempt.objects.order_by("id").values_list("outcome", flat=True)) == ["rescued", "delivered"]


def test_ten_deploys_under_load_lose_nothing_and_leave_no_row_in_the_air(make_endpoint, tmp_path):
    """SIGTERM to a worker that is sending, ten times: out within the grace time, and nothing of its is left leased."""
    deploys, each = 10, 40
    chance = random.Random(4)
    uids: list[str] = []
    busy = 0

    def has_sent(pid: int) -> bool:
        """A trickle of events until this worker has had one."""
        uids.extend(record(3, f"trickle{len(uids)}_"))
        beat()
        return sent_by(pid) > 0

    with gauge(lambda _number: chance.choice((0.0, 0.05, 0.4))) as receiver, workers(tmp_path) as group:
        make_endpoint(receiver.url + "/", max_concurrency=10)
        process, *coming = [group.start() for _ in range(3)]  # starting takes seconds, so two are always under way
        wait_for(lambda: has_sent(process.pid), 60, "the first worker", every=0.2)
        for deploy in range(deploys):
            following = coming.pop(0)  # as a deploy does: the new one is up before the old one goes
            coming += [group.start()] if deploy < deploys - 2 else []
            wait_for(lambda new=following: has_sent(new.pid), 60, "the next worker", every=0.2)
            seen = len(receiver.ids)
            uids += record(each, f"d{deploy}_")
            beat()
            wait_for(lambda seen=seen: len(receiver.ids) > seen, 60, "requests in the air", every=0.01)
            before = sent_by(process.pid)
            assert group.stop(process) == 0
            busy += sent_by(process.pid) > before
            process = following
        finished(len(uids))
        assert group.stop(process) == 0
    assert Delivery.objects.exclude(state="delivered").count() == 0
    assert busy >= 1  # or they would have been stopped while they had nothing to do
    assert set(receiver.ids) == set(uids)
    assert not Attempt.objects.filter(outcome="rescued").exists()  # no lease was left to run out
    # What outlasted the grace time was given back, and may have arrived all the same; all else came once.
    given_back = Attempt.objects.filter(outcome="own_fault").count()
    assert len(receiver.ids) - len(uids) <= given_back
