"""Forgetting what is old on a large table: in bounded steps, beside the work, to the row."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from delivery import events
from delivery.maintenance import retention
from delivery.maintenance.accounting import account
from delivery.models import DailyTotal, Delivery, Event

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 3_000


def test_a_large_table_is_pruned_in_short_steps_that_stop_nobody(make_endpoint, sink, drain, monkeypatch):
    make_endpoint(sink.url + "/ok", max_concurrency=100)
    old = timezone.now() - timedelta(days=400)
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(MANY)])
    Event.objects.update(created_at=old)
    Delivery.objects.update(state="delivered", finished_at=old, delivered_at=old)
    Delivery.objects.filter(pk__in=Delivery.objects.order_by("pk")[:10].values("pk")).update(state="pending")
    fresh = events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(20)])
    before = account(old.date()).lines[0]

    steps: list[int] = []
    remove = retention._remove

    def remove_and_work(ids, now, pruned):
        """Between two steps a worker sends, and no lock of the pruning is left."""
        remove(ids, now, pruned)
        steps.append(len(ids))
        assert not connection.in_atomic_block
        if len(steps) == 2:
            drain()

    monkeypatch.setattr(retention, "CHUNK", 500)
    monkeypatch.setattr(retention, "_remove", remove_and_work)
    first = retention.prune(now=timezone.now(), budget_seconds=0.0)
    assert (first.is_done, first.events) == (False, 0)  # a budget that is used up ends it at once
    pruned = retention.prune(now=timezone.now(), budget_seconds=600)
    assert (pruned.is_done, pruned.events, pruned.deliveries) == (True, MANY - 10, MANY - 10)
    assert max(steps) <= retention.CHUNK and len(steps) >= MANY // retention.CHUNK
    assert {seen.headers["webhook-id"] for seen in sink.seen} >= {event.uid for event in fresh}
    after = account(old.date())
    assert after.balances and (after.lines[0].recorded, after.lines[0].difference) == (before.recorded, 0)
    assert DailyTotal.objects.get().delivered == MANY - 10
