"""It balances to the row: whatever the states, after pruning, and not when a row is gone."""

from datetime import timedelta

import pytest
from django.core.management import call_command

from delivery.maintenance import retention
from delivery.maintenance.accounting import account
from delivery.models import DailyTotal, Delivery, Event
from delivery.tests import factories
from delivery.tests.factories import NOW

pytestmark = pytest.mark.django_db
OLD = NOW - timedelta(days=120)


def _one_of_each(at=NOW):
    endpoint = factories.endpoint(subscriber="acme")
    paused = factories.endpoint(subscriber="acme", paused_at=NOW)
    for state in ("pending", "failed", "delivered", "dead_letter", "cancelled"):
        factories.delivery(endpoint, factories.event(at, subscriber="acme"), state, **_final(state, at))
    factories.delivery(paused, factories.event(at, subscriber="acme"))
    factories.event(at, subscriber="acme")  # matches nobody
    replayed = factories.event(at, subscriber="acme")
    factories.delivery(endpoint, replayed, "delivered", finished_at=at)
    factories.delivery(endpoint, replayed, "delivered", finished_at=at, is_replay=True)


def _final(state, at):
    return {"finished_at": at} if state in ("delivered", "dead_letter", "cancelled") else {}


def test_every_state_has_its_column():
    _one_of_each()
    result = account(NOW.date())
    (line,) = result.lines
    assert line.as_dict() == {
        "day": "2026-11-29",
        "subscriber": "acme",
        "recorded": 9,
        "delivered": 3,
        "waiting": 2,
        "held": 1,
        "dead": 1,
        "discarded": 1,
        "unmatched": 1,
        "difference": 0,
    }
    assert result.balances


def test_a_missing_row_is_named_and_the_command_exits_1(capsys):
    endpoint = factories.endpoint()
    lost = factories.delivery(endpoint, factories.event(NOW))
    factories.delivery(endpoint, factories.event(NOW))
    Delivery.objects.filter(pk=lost.pk).delete()
    result = account(NOW.date())
    assert result.difference == 1
    assert result.broken == [lost.event.uid]
    with pytest.raises(SystemExit) as stopped:
        call_command("account", "--day", "2026-11-29")
    assert stopped.value.code == 1
    assert lost.event.uid in capsys.readouterr().err


def test_pruning_keeps_the_balance_and_what_still_waits():
    _one_of_each(OLD)
    before = account(OLD.date()).lines[0].as_dict()
    pruned = retention.prune(now=NOW)
    # delivered, dead, cancelled, unmatched, replayed; the waiting and the held event stay
    assert (pruned.events, pruned.deliveries, pruned.dead_letters) == (5, 5, 1)
    assert Event.objects.count() == 3
    after = account(OLD.date())
    assert after.lines[0].as_dict() == before
    assert after.balances
    total = DailyTotal.objects.get()
    assert (total.recorded, total.unmatched, total.delivered, total.dead, total.discarded) == (5, 1, 3, 1, 1)
    assert retention.prune(now=NOW).events == 0


def test_dead_letters_outlive_delivered_rows(settings):
    settings.EVENT_RETENTION_DAYS, settings.DEAD_LETTER_RETENTION_DAYS = 1, 2  # never fewer than 14
    endpoint, at = factories.endpoint(), NOW - timedelta(days=13)
    kept = factories.delivery(endpoint, factories.event(at), "dead_letter", finished_at=at)
    factories.delivery(endpoint, factories.event(at), "delivered", finished_at=at)
    retention.prune(now=NOW)
    assert list(Delivery.objects.values_list("pk", flat=True)) == [kept.pk]


def test_a_dry_run_removes_nothing():
    _one_of_each(OLD)
    assert retention.prune(now=NOW, dry_run=True).events == 5
    assert Event.objects.count() == 8


@pytest.mark.django_db(transaction=True)
def test_one_snapshot_outside_of_a_transaction():
    _one_of_each()
    assert account(NOW.date()).balances
