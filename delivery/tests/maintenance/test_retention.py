"""Retention against everybody else: what moves in the same moment is not deleted."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from delivery import lifecycle, replays
from delivery.maintenance import retention
from delivery.maintenance.accounting import account
from delivery.models import Delivery, Event
from delivery.tests import factories

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = timezone.now() - timedelta(days=400)


def _old_dead_letter() -> Delivery:
    endpoint = factories.endpoint(subscriber="acme")
    event = factories.event(LONG_AGO, subscriber="acme")
    return factories.delivery(endpoint, event, "dead_letter", finished_at=LONG_AGO)


def _beside(work) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0


def _until_it_waits(thread: threading.Thread) -> None:
    ends = timezone.now() + timedelta(seconds=20)
    while not _waits_for_a_lock() and thread.is_alive() and timezone.now() < ends:
        pass


def test_a_delivery_redriven_in_the_same_moment_stays():
    dead = _old_dead_letter()
    pruned = []
    with transaction.atomic():
        assert lifecycle.redrive([dead.pk], actor="ada", reason="healed") == 1
        thread = _beside(lambda: pruned.append(retention.prune(now=timezone.now())))
        _until_it_waits(thread)
    thread.join()
    assert (pruned[0].events, pruned[0].deliveries) == (0, 0)
    dead.refresh_from_db()
    assert dead.state == "pending" and Event.objects.count() == 1
    assert account(LONG_AGO.date()).balances


def test_a_redrive_that_comes_too_late_says_so():
    dead = _old_dead_letter()
    redriven = []
    held = threading.Event()
    go_on = threading.Event()
    roll_up = retention._roll_up

    def slow(ids, pruned):
        held.set()
        go_on.wait(20)
        roll_up(ids, pruned)

    retention._roll_up = slow
    try:
        pruning = _beside(lambda: retention.prune(now=timezone.now()))
        assert held.wait(20)
        redriving = _beside(lambda: redriven.append(lifecycle.redrive([dead.pk], actor="ada", reason="late")))
        _until_it_waits(redriving)
        go_on.set()
        pruning.join()
        redriving.join()
    finally:
        retention._roll_up = roll_up
        go_on.set()
    assert redriven == [0] and Delivery.objects.count() == 0
    assert account(LONG_AGO.date()).balances


def test_an_event_replayed_in_the_same_moment_stays():
    dead = _old_dead_letter()
    pruned = []
    with transaction.atomic():
        made = replays.replay(dead.endpoint_id, actor="ada", event_ids=[dead.event_id])
        assert made.deliveries == 1
        thread = _beside(lambda: pruned.append(retention.prune(now=timezone.now())))
        _until_it_waits(thread)
    thread.join()
    assert pruned[0].events == 0 and Delivery.objects.count() == 2


def test_many_redrives_against_many_prunes_lose_nothing():
    dead = [_old_dead_letter().pk for _ in range(40)]
    moved: list[int] = []

    def redrive() -> None:
        for pk in dead:
            moved.extend([pk] * lifecycle.redrive([pk], actor="ada", reason="healed"))

    def prune() -> None:
        retention.CHUNK, kept = 3, retention.CHUNK
        try:
            retention.prune(now=timezone.now())
        finally:
            retention.CHUNK = kept

    threads = [_beside(redrive), _beside(prune)]
    for thread in threads:
        thread.join()
    assert sorted(Delivery.objects.values_list("pk", flat=True)) == sorted(moved)
    assert set(Delivery.objects.values_list("state", flat=True)) <= {"pending"}
    assert account(LONG_AGO.date()).balances
