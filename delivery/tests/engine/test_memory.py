"""Large payloads share a budget of bytes; one above it goes alone; small ones never wait for them."""

import uuid

import pytest

from delivery import events
from delivery.engine import sql
from delivery.engine.claiming import SMALL_BYTES, Claimer, large_bytes_of
from delivery.models import Attempt, Delivery
from delivery.tests.engine.conftest import new_drain

pytestmark = pytest.mark.django_db(transaction=True)
LARGE = 100_000  # with its wrapping a little more


def _record(count: int, size: int, subscriber: str = "acme", **data) -> None:
    events.record_many([events.NewEvent("a.b", {"n": n, "x": "y" * size, **data}, subscriber) for n in range(count)])


@pytest.mark.parametrize("ordering_key", ["", "data.n"])
def test_a_claim_takes_no_more_bytes_than_there_are(make_endpoint, ordering_key):
    make_endpoint(ordering_key=ordering_key)
    _record(6, LARGE)
    claimer = Claimer(max_bytes=250_000)
    first, _ = claimer.claim(20, uuid.uuid4())
    assert len(first) == 2
    held = sum(large_bytes_of(one.payload) for one in first)
    assert claimer.claim(20, uuid.uuid4(), held)[0] == []
    assert Delivery.objects.filter(state="in_flight").count() == 2
    assert len(claimer.claim(20, uuid.uuid4(), held // 2)[0]) == 1


def test_one_larger_than_the_whole_budget_goes_alone(make_endpoint):
    make_endpoint()
    _record(2, LARGE)
    claimer = Claimer(max_bytes=1_000)
    (only,) = claimer.claim(20, uuid.uuid4())[0]
    assert claimer.claim(20, uuid.uuid4(), large_bytes_of(only.payload))[0] == []
    assert len(claimer.claim(20, uuid.uuid4(), 0)[0]) == 1


def test_small_ones_pass_the_large_ones(make_endpoint):
    make_endpoint(subscriber="large")
    make_endpoint(subscriber="small")
    _record(4, LARGE, "large")
    _record(5, SMALL_BYTES // 2, "small")
    claimed, _ = Claimer(max_bytes=1_000).claim(20, uuid.uuid4(), 1_000)
    assert len(claimed) == 5 and all(large_bytes_of(one.payload) == 0 for one in claimed)


def test_endpoints_of_several_leases_share_one_budget(make_endpoint):
    for number, timeout in enumerate((1_000, 30_000, 60_000)):
        make_endpoint(subscriber=f"s{number}", timeout_ms=timeout, ordering_key="data.n" if number else "")
        _record(1, LARGE, f"s{number}")
    claimed, _ = Claimer(max_bytes=250_000).claim(20, uuid.uuid4())
    assert len(claimed) == 2


def test_a_drain_never_holds_more_than_its_budget_and_sends_all(make_endpoint, sink):
    make_endpoint(sink.answer("/slow", 200, wait=0.05), max_concurrency=50)
    make_endpoint(sink.url + "/ok", subscriber="small", max_concurrency=50)
    _record(9, LARGE)
    _record(20, 10, "small")
    engine, transfers = new_drain(50, claimer=Claimer(max_bytes=350_000))
    most = 0
    step = engine._step

    def watched() -> bool:
        nonlocal most
        going_on = step()
        most = max(most, engine._large_bytes)
        return going_on

    engine._step = watched
    try:
        engine.run()
    finally:
        transfers.close()
    assert Delivery.objects.filter(state="delivered").count() == 29 == Attempt.objects.count()
    assert LARGE < most <= 350_000
    assert engine._large_bytes == 0
    assert len([seen for seen in sink.seen if seen.path == "/slow"]) == 9


def test_what_waits_to_be_settled_holds_no_payload(make_endpoint, sink):
    make_endpoint(sink.answer("/late", 500))
    _record(2, LARGE)
    engine, transfers = new_drain(50)
    kept, keep = [], engine._keep
    engine._keep = lambda verdict: (keep(verdict), kept.append(verdict))[0]
    try:
        engine.run()
    finally:
        transfers.close()
    assert len(kept) == 2
    assert all(verdict.claimed.payload == b"" == verdict.result.request.body for verdict in kept)


def test_the_size_of_a_payload_is_known_without_reading_it(make_endpoint):
    make_endpoint()
    _record(1, 5_000_000)
    plan = sql.execute(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT octet_length(payload) FROM delivery_event"
    ).fetchone()[0][0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20  # its pages are some hundreds
