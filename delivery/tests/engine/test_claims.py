"""Claim, settle and rescue on the real database, with several workers at once."""

import random
import threading
import uuid
from collections import Counter
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone

from delivery import events, lifecycle
from delivery.engine import ahead, claiming, claims, settle, sql
from delivery.engine.claiming import Claimer
from delivery.engine.requests import Claimed
from delivery.engine.transport.messages import Request, TransferResult
from delivery.engine.verdicts import Verdict, judge
from delivery.latency import Recorder
from delivery.maintenance import sweeps
from delivery.models import Attempt, Delivery, EndpointHealth
from delivery.policy.outcomes import Failure
from delivery.tests import wire

pytestmark = pytest.mark.django_db(transaction=True)


def fill(count: int, subscriber: str = "acme", **data) -> list[int]:
    made = events.record_many([events.NewEvent("a.b", {"n": n, **data}, subscriber) for n in range(count)])
    return list(Delivery.objects.filter(event__in=made).order_by("id").values_list("id", flat=True))


def take(slots: int = 10, claimer: Claimer | None = None) -> list[Claimed]:
    return (claimer or Claimer()).claim(slots, uuid.uuid4())[0]


def answered(claimed: Claimed, status: int = 200, failure: Failure | None = None, **values) -> Verdict:
    result = TransferResult(Request("http://x/", key=claimed), status, failure, total_ms=5.0, **values)
    return judge(claimed, result, random.Random(1))


def finish(claimed: list[Claimed], status: int = 200, failure: Failure | None = None, **values) -> int:
    return settle.settle([answered(one, status, failure, **values) for one in claimed], Recorder(), "test")


def in_threads(number: int, work) -> None:
    barrier = threading.Barrier(number)

    def run() -> None:
        try:
            barrier.wait()
            work()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_claim_leases_and_moves_the_schedule_forward(make_endpoint):
    make_endpoint(timeout_ms=10_000)
    ids = fill(3)
    claimed = take(2)
    assert [one.id for one in claimed] == ids[:2]
    row = Delivery.objects.get(pk=ids[0])
    assert (row.state, row.lease_token) == ("in_flight", claimed[0].token)
    lease = (row.leased_until - timezone.now()).total_seconds()
    assert 25 < lease <= 30 and abs((row.next_attempt_at - row.leased_until).total_seconds()) < 0.1
    assert Delivery.objects.get(pk=ids[2]).state == "pending"


@pytest.mark.parametrize("plan", ["enable_indexscan", "enable_hashjoin", "enable_nestloop", "enable_sort"])
def test_never_more_than_asked_for_whatever_the_plan(make_endpoint, plan):
    for number in range(4):
        make_endpoint(subscriber=f"s{number}")
        fill(30, f"s{number}")
    sql.cursor().execute(f"SET {plan} = off")
    sql.cursor().execute("SET enable_bitmapscan = off")
    try:
        claimed = take(10)
        assert 1 <= len(claimed) <= 10
        assert Delivery.objects.filter(state="in_flight").count() == len(claimed)
    finally:
        sql.cursor().execute("RESET ALL")


def test_four_workers_keep_one_cap_together(make_endpoint):
    make_endpoint(max_concurrency=10)
    fill(200)
    taken: list[Claimed] = []
    for _ in range(3):
        taken.clear()
        in_threads(4, lambda: [taken.extend(take(20)) for _ in range(5)])
        assert Delivery.objects.filter(state="in_flight").count() == len(taken) == 10
        finish(taken)


def test_four_workers_keep_one_rate_together(make_endpoint):
    make_endpoint(rate_per_minute=60, rate_burst=7, max_concurrency=100)
    fill(60)
    taken: list[Claimed] = []
    in_threads(4, lambda: [taken.extend(take(20)) for _ in range(5)])
    assert 7 <= len(taken) <= 9  # the burst, and a token or two that came in meanwhile
    EndpointHealth.objects.update(tokens_at=timezone.now() - timedelta(seconds=3))
    finish(taken)
    assert len(take(20)) == 3


def test_exactly_one_probe_among_four_workers(make_endpoint):
    now = timezone.now()
    make_endpoint(health={"breaker_state": "open", "opened_at": now, "probe_at": now - timedelta(seconds=1)})
    fill(50)
    taken: list[Claimed] = []
    in_threads(4, lambda: [taken.extend(take(20)) for _ in range(3)])
    assert len(taken) == 1 and taken[0].is_probe
    health = EndpointHealth.objects.get()
    assert (health.breaker_state, health.probe_token) == ("half_open", taken[0].token)
    EndpointHealth.objects.update(probe_until=now - timedelta(seconds=1))  # its worker died
    assert len(take(20)) == 1


def test_a_probe_decides(make_endpoint):
    now = timezone.now()
    make_endpoint(
        health={"breaker_state": "open", "opened_at": now, "probe_at": now, "cooldown_seconds": 300},
        max_attempts=1,
    )
    fill(5)
    finish(take(), 500)
    health = EndpointHealth.objects.get()
    assert (health.breaker_state, health.cooldown_seconds) == ("open", 600)
    probe = Delivery.objects.exclude(last_outcome="").get()
    assert (probe.state, probe.attempt_count) == ("failed", 0)  # the breaker asked, not the delivery
    assert take() == []
    EndpointHealth.objects.update(probe_at=now)
    finish(take(), 200)
    health = EndpointHealth.objects.get()
    assert (health.breaker_state, health.cooldown_seconds, health.consecutive_failures) == ("closed", 300, 0)
    assert len(take()) == 4


def test_the_breaker_opens_at_its_threshold_and_old_results_change_nothing(make_endpoint):
    make_endpoint(breaker_threshold=3, max_concurrency=100)
    fill(20)
    taken = take(20)
    finish(taken[:2], failure=Failure.TIMEOUT)
    assert EndpointHealth.objects.get().breaker_state == "closed"
    finish(taken[2:3], 503)
    opened = EndpointHealth.objects.get()
    assert (opened.breaker_state, opened.consecutive_failures) == ("open", 3)
    assert (opened.probe_at - opened.opened_at).total_seconds() == 300
    finish(taken[3:10], 500)
    finish(taken[10:], 200)
    health = EndpointHealth.objects.get()
    assert (health.breaker_state, health.consecutive_failures, health.opened_at) == ("open", 3, opened.opened_at)


def test_a_slow_endpoint_opens_at_half_its_threshold(make_endpoint):
    make_endpoint(breaker_threshold=6, health={"p95_ms": 5001})
    fill(5)
    taken = take(5)
    finish(taken[:3], 500)
    assert EndpointHealth.objects.get().breaker_state == "open"


def test_our_own_faults_are_nobodys_attempt(make_endpoint):
    make_endpoint()
    fill(1)
    finish(take(), failure=Failure.OWN_FAULT, detail="Our own name service gives no answers.")
    row = Delivery.objects.get()
    assert (row.state, row.attempt_count, row.rescue_count) == ("failed", 0, 0)
    assert EndpointHealth.objects.get().consecutive_failures == 0
    assert Attempt.objects.get().outcome == "own_fault"


def test_a_zombie_changes_nothing(make_endpoint):
    make_endpoint(max_attempts=2)
    fill(1)
    zombie = take()
    Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=5))
    assert sweeps.rescue() == 1
    again = take()
    assert finish(zombie, 401) == 0
    row = Delivery.objects.get()
    assert (row.state, row.lease_token, row.attempt_count) == ("in_flight", again[0].token, 0)
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["rescued"]
    assert EndpointHealth.objects.get().refusal_count == 0
    assert finish(again) == 1 and finish(again) == 0
    assert Delivery.objects.get().rescue_count == 0


def test_five_rescues_in_a_row_are_poison(make_endpoint):
    make_endpoint()
    fill(1)
    for _ in range(5):
        assert len(take()) == 1
        Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=5))
        sweeps.rescue()
    row = Delivery.objects.get()
    assert (row.state, row.last_outcome, row.rescue_count, row.attempt_count) == ("dead_letter", "poison", 5, 0)
    assert row.fingerprint and row.finished_at
    rescued = Attempt.objects.filter(outcome="rescued")
    assert list(rescued.order_by("number").values_list("number", flat=True)) == [1, 2, 3, 4, 5]
    assert lifecycle.redrive([row.pk], actor="ada", reason="fixed") == 1
    assert len(take()) == 1


def test_a_fresh_delivery_passes_a_flood(make_endpoint):
    make_endpoint(subscriber="flood")
    fill(500, "flood")
    claimer = Claimer()
    finish(take(50, claimer))
    for number in range(20):
        make_endpoint(subscriber=f"s{number}")
        fill(1, f"s{number}")
    seen: Counter[int] = Counter()
    for _ in range(4):
        claimed = take(50, claimer)
        seen.update(one.config.id for one in claimed)
        finish(claimed)
    assert (
        len(seen) == 21 and Delivery.objects.filter(state="pending").exclude(endpoint__subscriber="flood").count() == 0
    )


def test_the_scan_goes_round_all_endpoints_however_many_are_held(make_endpoint):
    for number in range(90):
        make_endpoint(subscriber=f"s{number}", paused_at=timezone.now() if number % 45 else None)
    events.record_many([events.NewEvent("a.b", {}, f"s{number}") for number in range(90)])
    claimer = Claimer()
    assert len(take(50, claimer) + take(50, claimer)) == 2


def test_strictly_in_order_within_a_key_and_no_waiting_across_keys(make_endpoint):
    endpoint = make_endpoint(ordering_key="data.click")
    for step in ("lead", "sale", "rejected"):
        for click in ("a", "b"):
            events.record("a.b", {"click": click, "step": step}, subscriber="acme", uid=f"{click}-{step}")
    events.record("a.b", {"step": "free"}, subscriber="acme", uid="free")
    first = {one.uid: one for one in take()}
    assert set(first) == {"a-lead", "b-lead", "free"}
    assert {d.awaits_turn for d in Delivery.objects.filter(state="pending")} == {True}
    assert take() == []
    finish([first["a-lead"]], 500)
    finish([first["b-lead"], first["free"]])
    assert [one.uid for one in take()] == ["b-sale"]
    Delivery.objects.filter(event__uid="a-lead").update(next_attempt_at=timezone.now())
    retried = take()
    assert [one.uid for one in retried] == ["a-lead"]
    finish(retried, 400)  # a dead letter holds its key …
    assert take() == [] and sweeps.promote_strays() == 0
    dead = Delivery.objects.get(state="dead_letter")
    assert lifecycle.redrive([dead.pk], actor="ada", reason="healed") == 1
    finish(take())
    sale = take()
    assert [one.uid for one in sale] == ["a-sale"]
    finish(sale, 400)
    assert lifecycle.discard([Delivery.objects.get(state="dead_letter").pk], actor="ada", reason="not wanted") == 1
    assert [one.uid for one in take()] == ["a-rejected"]  # … until somebody redrives or discards it
    assert endpoint.deliveries.filter(state="cancelled").count() == 1


def test_many_behind_one_key_are_parked_once_and_let_others_pass(make_endpoint):
    make_endpoint(ordering_key="data.click", max_concurrency=5)
    fill(400, click="same")
    fill(1, click="other")
    claimer = Claimer()
    keys = [one.ordering_key for _ in range(8) for one in take(5, claimer)]
    assert sorted(keys) == ["other", "same"]
    Delivery.objects.filter(state="in_flight", ordering_key="same").update(
        state="delivered", lease_token=None, leased_until=None
    )
    assert sweeps.promote_strays() == 1  # somebody repaired a row by hand


def test_order_holds_with_four_workers(make_endpoint):
    make_endpoint(ordering_key="data.key", max_concurrency=50)
    events.record_many([events.NewEvent("a.b", {"key": n % 5, "n": n}, "acme") for n in range(60)])
    order: list[tuple[str, int]] = []
    lock = threading.Lock()

    def work() -> None:
        claimer = Claimer()
        for _ in range(40):
            claimed = take(4, claimer)
            with lock:
                order.extend((one.ordering_key, one.id) for one in claimed)
            if claimed:
                finish(claimed)

    in_threads(4, work)
    finish(take(50))
    for key in "01234":
        ids = [pk for name, pk in order if name == key]
        assert ids == sorted(ids) and len(ids) == len(set(ids))
    assert len(order) >= 20


def test_release_gives_back_what_a_lost_claim_took(make_endpoint):
    make_endpoint()
    fill(3)
    token = uuid.uuid4()
    Claimer().claim(10, token)  # committed, but we never heard of it
    assert claims.release([token]) == 3
    assert {(d.state, d.attempt_count) for d in Delivery.objects.all()} == {("pending", 0)}


def test_the_next_due_is_seen_only_within_the_horizon(make_endpoint):
    make_endpoint()
    fill(1)
    assert ahead.next_due_in(2.0) <= 0
    Delivery.objects.update(next_attempt_at=timezone.now() + timedelta(seconds=1))
    assert 0 < ahead.next_due_in(2.0) <= 1
    assert ahead.next_due_in(0.5) is None
    EndpointHealth.objects.update(throttled_until=timezone.now() + timedelta(seconds=60))
    assert ahead.next_due_in(2.0) is None


def test_held_for_two_weeks_becomes_a_dead_letter(make_endpoint):
    make_endpoint(paused_at=timezone.now())
    old, new = fill(2)
    Delivery.objects.filter(pk=old).update(next_attempt_at=timezone.now() - timedelta(days=15))
    assert sweeps.give_up_held() == 1
    row = Delivery.objects.get(pk=old)
    assert (row.state, row.last_outcome) == ("dead_letter", "held_too_long")
    assert Delivery.objects.get(pk=new).state == "pending"


def test_a_broken_endpoint_is_paused_and_stops_nobody(make_endpoint):
    broken = make_endpoint(subscriber="broken", retry_profile="custom", retry_delays=[])
    make_endpoint()
    fill(2, "broken")
    fill(2)
    claimer = Claimer()
    assert len(take(10, claimer) + take(10, claimer)) == 2
    assert EndpointHealth.objects.get(pk=broken.pk).throttled_until > timezone.now()


def test_a_lookup_and_a_claim_are_two_statements(make_endpoint):
    make_endpoint()
    fill(4)
    claimer = Claimer()
    finish(take(2, claimer))
    with wire.counted() as sent:
        assert len(take(2, claimer)) == 2
    assert sent.statements == 2


def test_a_held_snapshot_leaves_claiming_usable(make_endpoint, monkeypatch):
    """Somebody's long transaction keeps every claimed row in the index; a claim must not walk past them all again."""
    # Rows that the update below replaces stand in the index at about now, for as long as an autovacuum looks on.
    monkeypatch.setattr(claiming, "FLOOR_SLACK_SECONDS", 0.0)
    make_endpoint(max_concurrency=1000)
    fill(3000)
    Delivery.objects.update(next_attempt_at=timezone.now() - timedelta(hours=1))
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM delivery_delivery")
        claimer = Claimer()
        while claimed := take(200, claimer):
            finish(claimed)
        assert claim_one() < 500
        monkeypatch.setattr(ahead, "earliest_due", lambda _slack: ahead.LONG_AGO)
        assert claim_one() > 3000  # what it would cost without the floor


def claim_one() -> int:
    """Entries of the due index read by one claim of one fresh delivery."""
    fill(1)
    claimer = Claimer()
    claimer._look_where_it_begins()
    claimer._floor_until = float("inf")  # looking again is not what is counted
    before = reads()
    assert len(take(10, claimer)) == 1
    return reads() - before


def reads() -> int:
    sql.execute("SELECT pg_stat_force_next_flush()")
    found = sql.execute("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'delivery_due'")
    return found.fetchone()[0]


def test_an_orphan_of_a_deleted_endpoint_is_cancelled(make_endpoint):
    endpoint = make_endpoint()
    fill(2)
    type(endpoint).objects.update(deleted_at=timezone.now())
    assert sweeps.cancel_orphans() == 2
    assert {d.state for d in Delivery.objects.all()} == {"cancelled"}
    with transaction.atomic():
        assert lifecycle.redrive([d.pk for d in Delivery.objects.all()], actor="ada", reason="?") == 0
