"""A runner that dies at any step of any verb: the next one does what is left, once, and the account is exact."""

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from console.models import Operation, OperationPart
from console.operations import engine, plan, sets, verbs
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Delivery
from tasks.models import Task

ROOT = Path(__file__).resolve().parents[3]
HOW_MANY = 6


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def deliveries():
    endpoint = make_endpoint()
    for _ in range(HOW_MANY):
        make_delivery(endpoint, "dead_letter")
    return {"endpoint": endpoint.pk}


def events():
    endpoint = make_endpoint()
    for _ in range(HOW_MANY):
        make_delivery(endpoint, "delivered", delivered_at=timezone.now())
    return {"endpoint": endpoint.pk, "since": "1h"}


def dead_tasks():
    make_batch(["dead_letter"] * HOW_MANY)
    return {"all": True}


def open_tasks():
    make_batch(["queued"] * HOW_MANY)
    return {"all": True}


def redriven():
    return Counter(Delivery.objects.values_list("state", "redrive_count"))


def discarded():
    return Counter(Delivery.objects.values_list("state", flat=True))


def replayed():
    return Counter(Delivery.objects.values_list("is_replay", flat=True))


def tasks_redriven():
    return Counter(Task.objects.values_list("state", "redrive_count"))


def tasks_cancelled():
    return Counter(Task.objects.filter(transitions__to_state="cancelled").values_list("state", flat=True))


VERBS = {
    "redrive_deliveries": (deliveries, redriven, {("pending", 1): HOW_MANY}),
    "discard_deliveries": (deliveries, discarded, {"cancelled": HOW_MANY}),
    "replay_events": (events, replayed, {False: HOW_MANY, True: HOW_MANY}),
    "redrive_tasks": (dead_tasks, tasks_redriven, {("queued", 1): HOW_MANY}),
    "cancel_tasks": (open_tasks, tasks_cancelled, {"cancelled": HOW_MANY}),
}
STEPS = ("the ids are read", "it acted", "the items are written", "the cursor moved", "it is committed")


def die(monkeypatch, step, verb, chunk):
    """Make the runner die in its `chunk`-th chunk, right after the step."""
    seen = Counter()

    def dying(does):
        def call(*args, **kwargs):
            answer = does(*args, **kwargs)
            seen[step] += 1
            if seen[step] == chunk:
                raise Killed(step)
            return answer

        return call

    acting = verbs.VERBS[verb]
    places = {
        "the ids are read": (sets, "next_ids", sets.next_ids),
        "the items are written": (sets, "write_items", sets.write_items),
        "the cursor moved": (engine.Runner, "_move_on", engine.Runner._move_on),
        "it is committed": (engine.Runner, "_pace", engine.Runner._pace),
    }
    if step == "it acted":
        monkeypatch.setitem(engine.VERBS, verb, verbs.BulkVerb(acting.allowed, acting.rows, dying(acting.act)))
    else:
        where, name, does = places[step]
        monkeypatch.setattr(where, name, dying(does))


def test_every_verb_is_among_them():
    assert set(VERBS) == set(verbs.VERBS)


@pytest.mark.django_db
@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_runner_that_dies_leaves_nothing_twice_and_nothing_untold(monkeypatch, verb, step, chunk):
    rows, effect, right = VERBS[verb]
    operation = plan.create(verb, rows(), actor="user:1:ann", reason="healed")
    monkeypatch.setattr(engine, "CHUNK", 2)
    with monkeypatch.context() as patch:
        die(patch, step, verb, chunk)
        with pytest.raises(Killed):
            engine.run_due(sleep=lambda _seconds: None)
    Operation.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    engine.run_due(sleep=lambda _seconds: None)
    operation.refresh_from_db()
    assert (operation.state, operation.target_count) == ("completed", HOW_MANY)
    assert (operation.done_count, operation.skipped_count, operation.failed_count) == (HOW_MANY, 0, 0)
    assert Counter(operation.items.values_list("outcome", flat=True)) == {"done": HOW_MANY}
    assert effect() == right
    assert not OperationPart.objects.exists()


@pytest.mark.django_db
def test_a_chunk_that_the_database_breaks_off_is_done_next_time_and_holds_up_no_other(monkeypatch):
    first = plan.create("redrive_deliveries", deliveries(), actor="a", reason="r")
    second = plan.create("redrive_tasks", dead_tasks(), actor="a", reason="r")
    acting = verbs.VERBS["redrive_deliveries"]

    def deadlocked(ids, operation):
        acting.act(ids, operation)
        raise OperationalError("deadlock detected")

    with monkeypatch.context() as patch:
        patch.setitem(engine.VERBS, first.verb, verbs.BulkVerb(acting.allowed, acting.rows, deadlocked))
        engine.run_due(sleep=lambda _seconds: None)
    for operation in (first, second):
        operation.refresh_from_db()
    assert (first.state, first.done_count, first.failed_count, first.items.count()) == ("running", 0, 0, 0)
    assert (second.state, second.done_count) == ("completed", HOW_MANY)
    engine.run_due(sleep=lambda _seconds: None)
    first.refresh_from_db()
    assert (first.state, first.done_count) == ("completed", HOW_MANY)
    assert redriven() == {("pending", 1): HOW_MANY}


RUNNER = """
import sys, time, django
django.setup()
from console.operations import engine, sets
write = sets.write_items
def stand_still(*args):
    if len(seen) == 1:
        print("acted", flush=True)
        time.sleep(600)
    seen.append(args)
    write(*args)
seen = []
sets.write_items = stand_still
engine.CHUNK = 8
engine.run_due()
"""


@pytest.mark.django_db(transaction=True)
def test_a_runner_process_killed_after_it_acted_replays_twenty_events_twenty_times():
    """The first chunk is committed; the second has inserted its deliveries when the process is gone for good."""
    endpoint = make_endpoint()
    rows = [make_delivery(endpoint, "delivered", delivered_at=timezone.now()) for _ in range(20)]
    operation = plan.create("replay_events", {"endpoint": endpoint.pk, "since": "1h"}, actor="a", reason="r")
    with subprocess.Popen([sys.executable, "-c", RUNNER], cwd=ROOT, env=_env(), stdout=subprocess.PIPE) as runner:
        assert runner.stdout.readline() == b"acted\n"
        os.kill(runner.pid, signal.SIGKILL)
    Operation.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    engine.run_due(sleep=lambda _seconds: None)  # waits for the row until the server has noticed the death
    operation.refresh_from_db()
    assert (operation.state, operation.done_count, operation.skipped_count) == ("completed", 20, 0)
    replays = Delivery.objects.filter(is_replay=True)
    assert sorted(replays.values_list("event_id", flat=True)) == sorted(row.event_id for row in rows)
    told = dict(operation.items.values_list("object_id", "detail"))
    assert told == {event: f"delivery {pk}" for event, pk in replays.values_list("event_id", "pk")}


def _env():
    one = connection.settings_dict
    url = (
        f"postgresql://{one['USER']}:{one['PASSWORD']}@{one['HOST'] or '127.0.0.1'}:{one['PORT'] or 5432}/{one['NAME']}"
    )
    told = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "config.settings", "ROUNDTRIP_ENV": "test"}
    return {**os.environ, **told}
