"""What the drain does when the ground shakes: the database goes away, our resolver is down, a row cannot be written."""

import random
import threading

import psycopg
import pytest
from django.db import connection

from delivery import events
from delivery.engine import drain as drains
from delivery.engine import process, settle
from delivery.engine.claiming import Claimer
from delivery.engine.drain import Drain
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.resolver import Resolver, ResolverConfig
from delivery.engine.transport.transfer import Transfers
from delivery.models import Attempt, Delivery, EndpointHealth
from delivery.tests.engine.conftest import LOOPBACK, new_drain
from kernel.network import lookup

pytestmark = pytest.mark.django_db(transaction=True)


def kill_the_drains_connection(pid: int) -> None:
    """As a database restart does to it, seen from the worker."""
    settings = connection.settings_dict
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"],
        user=settings["USER"],
        password=settings["PASSWORD"],
        dbname=settings["NAME"],
        autocommit=True,
    ) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_results_wait_while_the_database_is_away_and_no_attempt_is_charged_twice(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/slow", 200, wait=0.3), max_concurrency=30)
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(30)])
    pid = backend()
    threading.Timer(0.15, kill_the_drains_connection, [pid]).start()
    report = drain()
    assert report.settled == 30 and len(sink.seen) == 30
    assert {(d.state, d.attempt_count, d.rescue_count) for d in Delivery.objects.all()} == {("delivered", 1, 0)}
    assert Attempt.objects.count() == 30


def test_a_claim_that_was_committed_but_not_heard_of_is_given_back(make_endpoint, sink, drain, monkeypatch):
    make_endpoint(sink.url + "/ok")
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(5)])
    from delivery.engine.claiming import Claimer

    real, deaf = Claimer.claim, []

    def claim(self, slots, token, *memory, **options):
        answer = real(self, slots, token, *memory, **options)
        if not deaf:
            deaf.append(1)
            raise psycopg_lost()
        return answer

    monkeypatch.setattr(Claimer, "claim", claim)
    assert drain().settled == 5
    assert {(d.state, d.attempt_count, d.rescue_count) for d in Delivery.objects.all()} == {("delivered", 1, 0)}
    assert len(sink.seen) == 5


def psycopg_lost() -> Exception:
    from django.db import OperationalError

    return OperationalError("the connection is lost")


def test_a_settle_whose_answer_was_lost_is_written_once(make_endpoint, sink, drain, monkeypatch):
    make_endpoint(sink.url + "/ok")
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(5)])
    real, lost = settle.settle, []

    def settle_and_lose(verdicts, recorder, worker):
        answer = real(verdicts, recorder, worker)
        if not lost:
            lost.append(answer)
            raise psycopg_lost()
        return answer

    monkeypatch.setattr(drains.settle, "settle", settle_and_lose)
    drain()
    assert lost and Delivery.objects.filter(state="delivered", attempt_count=1).count() == 5
    assert Attempt.objects.count() == 5


def silent(_host: str) -> list[str]:
    raise lookup.LookupFailed("no answer")


def drain_with(names: Resolver) -> None:
    transfers = Transfers(names, TransferConfig(allowed_networks=LOOPBACK))
    try:
        Drain(transfers, Claimer(), linger_seconds=0.0).run()
    finally:
        transfers.close()


def test_a_resolver_that_is_down_costs_nobody_an_attempt(make_endpoint):
    names = Resolver(ResolverConfig(witnesses=2), allowed_networks=LOOPBACK, addresses_of=silent)
    asked = threading.Event()
    names.ask("already.silent.example", lambda _host: asked.set())
    assert asked.wait(5)
    make_endpoint("http://receiver.other/", max_attempts=1)
    events.record("a.b", {}, subscriber="acme")
    drain_with(names)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count, delivery.last_outcome) == ("failed", 0, "own_fault")
    health = EndpointHealth.objects.get()
    assert (health.own_fault_kind, health.own_fault_count) == ("name_service", 1)
    assert health.throttled_until is not None  # it waits, and does not go round and round


def test_a_name_that_fails_alone_is_charged(make_endpoint):
    make_endpoint("http://receiver.example/", max_attempts=1)
    events.record("a.b", {}, subscriber="acme")
    drain_with(Resolver(allowed_networks=LOOPBACK, addresses_of=silent))
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count, delivery.last_outcome) == ("dead_letter", 1, "dns")


def test_a_result_that_cannot_be_written_takes_no_other_along(make_endpoint, sink, drain, monkeypatch):
    make_endpoint(sink.url + "/ok")
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme", uid=f"e{n}") for n in range(6)])
    real = drains.judge

    def judge(claimed, result, rng):
        verdict = real(claimed, result, rng)
        if claimed.uid == "e3":
            verdict.state = "nonsense"  # no state: the row itself cannot be written
        return verdict

    monkeypatch.setattr(drains, "judge", judge)
    drain()
    assert Delivery.objects.filter(state="delivered").count() == 5
    assert Delivery.objects.get(event__uid="e3").state == "in_flight"  # its lease ends, and the rescue counts


def test_hostile_answers_are_stored_safely(make_endpoint, sink, drain):
    nasty = b'\\x00\t\n\r\x00\xff"{},NULL\\N' * 2000
    make_endpoint(sink.answer("/nasty", 500, {"Retry-After": "\\N\tsoon"}, nasty))
    events.record("a.b", {}, subscriber="acme")
    drain()
    assert bytes(Attempt.objects.get().response_head) == nasty[: 16 * 1024]


def test_a_second_drain_in_the_process_returns_at_once():
    assert process._one_at_a_time.acquire(blocking=False)
    try:
        assert process.drain() is None
    finally:
        process._one_at_a_time.release()


def test_many_outcomes_at_once_and_two_workers_lose_and_double_nothing(make_endpoint, sink):
    for number, status in enumerate((200, 200, 500, 404, 200)):
        make_endpoint(
            sink.answer(f"/{number}", status), subscriber=f"s{number}", breaker_threshold=1000, max_concurrency=20
        )
        events.record_many([events.NewEvent("a.b", {"n": n}, f"s{number}") for n in range(60)])

    def work() -> None:
        engine, transfers = new_drain(30, rng=random.Random(1))
        try:
            engine.run()
        finally:
            transfers.close()
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert Delivery.objects.filter(state="delivered").count() == 180
    assert Delivery.objects.filter(state="in_flight").count() == 0
    succeeded = [seen.headers["webhook-id"] for seen in sink.seen if seen.path in ("/0", "/1", "/4")]
    assert len(succeeded) == len(set(succeeded)) == 180
    assert sink.most_in_air <= 60
