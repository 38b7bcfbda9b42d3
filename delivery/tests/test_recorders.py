"""Callers that record the same events at the same moment: nobody waits in a circle, and the order given is kept."""

import random
import threading

import pytest
from django.db import connection, transaction

from delivery import events, replays
from delivery.events import NewEvent
from delivery.models import Delivery, Event
from delivery.tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


def _at_once(*works) -> list[object]:
    barrier, said = threading.Barrier(len(works)), []

    def run(work) -> None:
        try:
            barrier.wait()
            said.append(work())
        except Exception as error:
            said.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


@pytest.mark.parametrize("count", [2, 300])
def test_the_same_uids_in_opposite_order_never_deadlock(count):
    factories.endpoint(subscriber="acme")
    for turn in range(6):
        uids = [f"turn{turn}_{number:04}" for number in range(count)]

        def record(order, turn=turn) -> list[str]:
            with transaction.atomic():
                return [event.uid for event in events.record_many([NewEvent("a.b", {}, "acme", uid) for uid in order])]

        backwards = uids[::-1]
        said = _at_once(lambda u=uids: record(u), lambda b=backwards: record(b))
        for answer in said:
            # Both have all, or one is told in words to try again: never the database's own deadlock.
            assert answer in (uids, backwards) or type(answer).__name__ == "UidTaken", answer
        assert Event.objects.filter(uid__startswith=f"turn{turn}_").count() == count == len(set(uids))
    assert Delivery.objects.count() == 6 * count


def test_ids_rise_in_the_order_given_whatever_the_uids():
    endpoint = factories.endpoint(subscriber="acme", ordering_key="data.k")
    uids = [f"u{number:03}" for number in range(60)]
    random.Random(1).shuffle(uids)
    made = events.record_many([NewEvent("a.b", {"k": "one"}, "acme", uid) for uid in uids])
    assert [event.uid for event in made] == uids
    assert list(Event.objects.order_by("id").values_list("uid", flat=True)) == uids
    in_order = Delivery.objects.filter(endpoint=endpoint).order_by("id")
    assert list(in_order.values_list("event__uid", flat=True)) == uids
    assert events.record("a.b", {}, subscriber="acme").pk > made[-1].pk


def test_a_replay_orders_by_the_payloads_it_reads_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(replays, "READ_BYTES", 300)
    endpoint = factories.endpoint(subscriber="acme", ordering_key="data.k")
    made = events.record_many([NewEvent("a.b", {"k": f"k{n}", "x": "y" * (n * 40)}, "acme") for n in range(12)])
    assert replays.replay(endpoint, actor="ada", event_ids=[event.pk for event in made]).deliveries == 12
    rows = Delivery.objects.filter(is_replay=True).order_by("id")
    assert list(rows.values_list("event_id", "ordering_key")) == [(e.pk, f"k{n}") for n, e in enumerate(made)]


def test_a_replay_passes_over_what_is_gone():
    endpoint = factories.endpoint(subscriber="acme")
    kept, gone = factories.event(subscriber="acme"), factories.event(subscriber="acme")
    real = replays.outbox.hold_events

    def hold(ids):
        Event.objects.filter(pk=gone.pk).delete()  # retention, between the choice and the insert
        return real(ids)

    replays.outbox.hold_events = hold
    try:
        made = replays.replay(endpoint, actor="ada", event_ids=[kept.pk, gone.pk])
    finally:
        replays.outbox.hold_events = real
    assert (made.deliveries, made.next_after) == (1, None)
    assert Delivery.objects.get().event_id == kept.pk
