"""Alerts: one open for a rule and its subject, opened once, kept while it lasts, resolved when it is over."""

import json
import os
import socket
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone
from structlog.testing import capture_logs

from console import figures
from console.alerts import evaluate, rules, watchman
from console.health import database, heartbeat
from console.models import Alert, Heartbeat
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Endpoint, EndpointHealth, Event
from kernel import clock
from kernel.models import AuditEntry
from kernel.tests.off_hosts import host_off_by
from tasks.models import ExternalJob, KindPolicy, Task

pytestmark = pytest.mark.django_db


def opened(rule=None):
    rows = Alert.objects.exclude(state="resolved")
    return rows.filter(rule=rule) if rule else rows


def test_an_idle_house_has_none():
    evaluate.evaluate(timezone.now())
    assert not opened().exists()


def test_dead_letters_open_once_are_kept_and_resolved():
    now = timezone.now()
    delivery = make_delivery(make_endpoint(), "dead_letter")
    for minute in range(3):
        evaluate.evaluate(now + timedelta(minutes=minute))
    row = opened("dead_letters").get()
    assert (row.title, row.subject, row.value) == ("1 dead delivery", "deliveries", 1.0)
    assert row.opened_at == now
    assert row.last_seen_at == now + timedelta(minutes=2)
    told = Event.objects.get(type="alert.opened")
    assert (told.subscriber, told.uid) == ("", f"alert_{row.pk}")
    assert json.loads(bytes(told.payload))["data"]["rule"] == "dead_letters"
    delivery.delete()
    evaluate.evaluate(now + timedelta(minutes=3))
    row.refresh_from_db()
    assert (row.state, row.resolved_at) == ("resolved", now + timedelta(minutes=3))
    assert Event.objects.filter(type="alert.opened").count() == 1


def test_it_opens_again_when_it_comes_back():
    now = timezone.now()
    for round_ in range(2):
        delivery = make_delivery(make_endpoint(), "dead_letter")
        evaluate.evaluate(now + timedelta(minutes=2 * round_))
        delivery.delete()
        evaluate.evaluate(now + timedelta(minutes=2 * round_ + 1))
    assert Alert.objects.filter(rule="dead_letters").count() == 2
    assert not opened("dead_letters").exists()


def test_each_side_has_its_own():
    make_batch(["dead_letter", "dead_letter"])
    make_delivery(make_endpoint(), "dead_letter")
    evaluate.evaluate(timezone.now())
    assert set(opened("dead_letters").values_list("subject", "title")) == {
        ("tasks", "2 dead tasks"),
        ("deliveries", "1 dead delivery"),
    }


def test_a_delivery_due_for_half_an_hour_is_told_but_not_a_held_one():
    now = timezone.now()
    make_delivery(make_endpoint("late"), due=now - timedelta(minutes=31))
    make_delivery(make_endpoint("asleep", breaker_state="open"), due=now - timedelta(hours=5))
    found = rules.waiting_deliveries(now)
    assert [finding.subject for finding in found] == ["deliveries"]
    assert "31 minutes" in found[0].title


def test_what_its_receiver_asked_to_wait_for_is_no_stuck_queue_and_is_watched():
    now = timezone.now()
    asked = {"throttled_until": now + timedelta(hours=2), "wait_reason": "throttled"}
    make_delivery(make_endpoint("asked", **asked), due=now - timedelta(hours=5))
    make_endpoint("well")
    assert rules.waiting_deliveries(now) == []
    (row,) = figures.worst_endpoints()
    assert (row["state_label"], row["is_troubled"]) == ("active, the receiver asked us to wait", True)


def test_a_delivery_is_late_after_its_own_retry_window():
    now = timezone.now()
    endpoint = make_endpoint()  # profile spec: 30 + 60 + 120 + 240 s
    make_delivery(endpoint, due=now - timedelta(minutes=7))
    assert not rules.waiting_deliveries(now)
    assert rules.waiting_deliveries(now + timedelta(minutes=1))


def test_a_task_waiting_too_long_is_told_but_not_one_of_a_paused_kind():
    now = timezone.now()
    make_batch(["queued"], kind="scoring")
    Task.objects.update(next_attempt_at=now - timedelta(minutes=40))
    assert [finding.subject for finding in rules.waiting_tasks(now)] == ["tasks"]
    KindPolicy.objects.update_or_create(kind="scoring", defaults={"is_paused": True})
    assert rules.waiting_tasks(now) == []


def test_a_slow_endpoint_needs_twenty_samples():
    slow = make_endpoint("slow", p95_ms=2500.0, sample_count=20)
    make_endpoint("few", p95_ms=9000.0, sample_count=19)
    make_endpoint("quick", p95_ms=1999.0, sample_count=500)
    assert [finding.subject for finding in rules.slow_endpoints(timezone.now())] == [f"endpoint:{slow.pk}"]


@pytest.mark.parametrize("state", ["open", "half_open"])
def test_a_breaker_that_is_not_closed_is_told(state):
    endpoint = make_endpoint(breaker_state=state)
    make_endpoint("well")
    assert [finding.subject for finding in rules.open_breakers(timezone.now())] == [f"endpoint:{endpoint.pk}"]


def test_an_endpoint_that_is_held_says_what_to_press():
    now = timezone.now()
    attention, disabled = make_endpoint("a"), make_endpoint("b")
    type(attention).objects.filter(pk=attention.pk).update(attention_at=now, hold_reason="5 × rejected 401")
    type(disabled).objects.filter(pk=disabled.pk).update(disabled_at=now, hold_reason="410 gone")
    advice = {finding.subject: finding.advice for finding in rules.endpoints_in_need(now)}
    assert "press Resume" in advice[f"endpoint:{attention.pk}"]
    assert "press Enable" in advice[f"endpoint:{disabled.pk}"]


def beat(role, *, seen=timedelta(0), began=timedelta(minutes=10)):
    now = timezone.now()
    Heartbeat.objects.create(role=role, process=f"{role}@h:1", seen_at=now - seen, started_at=now - began)


def test_a_missing_process_is_told_once_the_house_has_started():
    beat("web", began=timedelta(seconds=20))
    assert rules.processes(timezone.now()) == []
    Heartbeat.objects.all().delete()
    beat("web")
    beat("delivery", seen=timedelta(minutes=3))
    beat("tasks")
    missing = {finding.subject: finding.detail for finding in rules.processes(timezone.now())}
    assert set(missing) == {"delivery", "beat", "schedule"}
    assert "Last seen: 20" in missing["delivery"]
    assert "Last seen: never" in missing["beat"]


def test_webhooks_that_stay_away_are_told():
    make_batch(["succeeded"] * 10, finished_by="poll", completed=True)
    found = rules.silent_webhooks(timezone.now())
    assert found[0].title == "The poll finished 100 % of the last hour's jobs"
    ExternalJob.objects.update(finished_by="webhook", last_webhook_at=timezone.now())
    assert rules.silent_webhooks(timezone.now()) == []


def test_a_held_snapshot_is_told(monkeypatch):
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT 1")
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
            held = database.oldest_snapshot()
            assert held is not None
            monkeypatch.setattr(rules, "SNAPSHOT_TOO_OLD", timedelta(0))
            found = rules.held_snapshots(timezone.now())[0]
            assert found.advice == f"End it: SELECT pg_terminate_backend({pid});"
    finally:
        other.close()


def test_a_broken_rule_silences_no_other_and_resolves_nothing(monkeypatch):
    make_delivery(make_endpoint(breaker_state="open"), "dead_letter")
    now = timezone.now()
    evaluate.evaluate(now)
    monkeypatch.setitem(rules.RULES, "dead_letters", (lambda _now: 1 / 0,))
    evaluate.evaluate(now + timedelta(minutes=1))
    assert opened("dead_letters").count() == 1
    assert opened("breaker_open").get().last_seen_at == now + timedelta(minutes=1)


def test_a_second_evaluator_finds_the_lock_taken():
    make_delivery(make_endpoint(), "dead_letter")
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [evaluate.LOCK])
            evaluate.evaluate(timezone.now())
            assert not opened().exists()
    finally:
        other.close()
    assert connection.is_usable()


def test_people_acknowledge_and_resolve_and_the_trail_says_so():
    make_delivery(make_endpoint(), "dead_letter")
    now = timezone.now()
    evaluate.evaluate(now)
    row = opened().get()
    assert evaluate.acknowledge(row.pk, actor="user:1:ann", now=now)
    assert not evaluate.acknowledge(row.pk, actor="user:2:bob", now=now)
    evaluate.evaluate(now + timedelta(minutes=1))
    row.refresh_from_db()
    assert (row.state, row.acknowledged_by) == ("acknowledged", "user:1:ann")
    assert evaluate.resolve(row.pk, actor="user:1:ann", now=now)
    assert not evaluate.resolve(row.pk, actor="user:1:ann", now=now)
    assert list(AuditEntry.objects.order_by("id").values_list("verb", "actor")) == [
        ("acknowledge", "user:1:ann"),
        ("resolve", "user:1:ann"),
    ]
    evaluate.evaluate(now + timedelta(minutes=2))  # it is not over
    assert opened("dead_letters").count() == 1


def test_the_evaluator_is_watched_by_every_web_process():
    make_delivery(make_endpoint(), "dead_letter")
    heartbeat.beat_once(heartbeat.EVALUATOR, process="evaluator")
    watchman.look()
    assert not opened().exists()  # the evaluator does its work
    Heartbeat.objects.update(seen_at=timezone.now() - timedelta(minutes=2))
    silent = {row["role"]: row["is_alive"] for row in figures.processes(timezone.now())}
    assert silent[heartbeat.EVALUATOR] is False
    with capture_logs() as kept:
        watchman.look()
    assert opened("dead_letters").exists()
    assert [line["event"] for line in kept].count("alert_evaluator_silent") == 1


def test_at_the_very_first_start_a_web_process_looks_and_warns_of_nobodys_silence():
    make_delivery(make_endpoint(), "dead_letter")
    with capture_logs() as kept:
        watchman.look()
    assert opened("dead_letters").exists()
    assert "alert_evaluator_silent" not in [line["event"] for line in kept]


def test_a_fault_of_ours_is_one_alert_for_each_sort_and_resolves_when_it_is_over():
    now = timezone.now()
    for _ in range(3):
        health = make_endpoint().health
        health.own_fault_kind, health.own_fault_count = "egress_proxy", 4
        health.own_fault_since, health.breaker_state = now - timedelta(minutes=20), "open"
        health.save()
    held = make_endpoint()
    Endpoint.objects.filter(pk=held.pk).update(attention_at=now, hold_reason="held")
    EndpointHealth.objects.filter(pk=held.pk).update(
        own_fault_kind="client_certificate", own_fault_count=5, own_fault_since=now - timedelta(minutes=2)
    )
    evaluate.evaluate(now)
    row = opened("own_fault").get()
    assert (row.subject, row.value) == ("egress_proxy", 3.0)
    assert row.title == "Our egress proxy refuses or cannot be reached: 3 endpoints wait"
    assert not opened("breaker_open").exists()  # no receiver is blamed
    EndpointHealth.objects.update(own_fault_kind="", own_fault_count=0, own_fault_since=None)
    evaluate.evaluate(now + timedelta(minutes=1))
    assert not opened("own_fault").exists()


def test_a_sick_worker_process_is_an_alert_though_it_meets_each_endpoint_once():
    now = timezone.now()
    endpoint = make_endpoint()
    EndpointHealth.objects.filter(pk=endpoint.pk).update(
        own_fault_kind="worker_process", own_fault_count=1, own_fault_since=now - timedelta(seconds=30)
    )
    evaluate.evaluate(now)
    assert opened("own_fault").get().title == "A delivery worker fails on every delivery: 1 endpoint waits"


def test_a_moments_fault_of_ours_is_no_alert():
    now = timezone.now()
    endpoint = make_endpoint()
    EndpointHealth.objects.filter(pk=endpoint.pk).update(
        own_fault_kind="open_files", own_fault_count=3, own_fault_since=now - timedelta(seconds=5)
    )
    evaluate.evaluate(now)
    assert not opened("own_fault").exists()


def beats(process, ahead_ms, seen=timedelta(0)):
    now = timezone.now()
    role = process.partition("@")[0]
    Heartbeat.objects.create(
        role=role, process=process, seen_at=now - seen, started_at=now - seen, clock_ahead_ms=ahead_ms
    )


def test_a_clock_more_than_five_seconds_off_is_told_by_host_and_process_and_by_how_much():
    beats("web@good:1", 4_999)
    beats("web@old:1", None)
    beats("tasks@fast:7", 15_000)
    beats("delivery@fast:8", 14_000)
    beats("beat@slow:9", -3_600_000)
    beats("web@gone:3", 99_000, seen=timedelta(minutes=5))
    evaluate.evaluate(timezone.now())
    rows = {row.subject: row for row in opened("clock_off")}
    assert {name: row.title for name, row in rows.items()} == {
        "host:fast": "The clock of fast is 15 s ahead",
        "host:slow": "The clock of slow is 60 min behind",
    }
    assert "delivery@fast:8 (14 s ahead), tasks@fast:7 (15 s ahead)" in rows["host:fast"].detail
    assert rows["host:slow"].value == -3600
    Heartbeat.objects.update(clock_ahead_ms=10)
    evaluate.evaluate(timezone.now())
    assert not opened("clock_off").exists()


@pytest.mark.parametrize(("hours", "words"), [(1, "60 min ahead"), (-1, "60 min behind")])
def test_a_process_an_hour_off_tells_of_itself_and_once_its_clock_is_right_the_next_look_ends_it(hours, words):
    with host_off_by(timedelta(hours=hours)):
        heartbeat.beat_once(heartbeat.WEB)
        evaluate.evaluate(clock.now())
    row = opened("clock_off").get()
    assert row.title == f"The clock of {socket.gethostname()} is {words}"
    assert f"web@{socket.gethostname()}:{os.getpid()} ({words})" in row.detail
    assert abs(row.opened_at - timezone.now()) < timedelta(minutes=1)
    heartbeat.beat_once(heartbeat.WEB)
    evaluate.evaluate(clock.now())
    assert not opened("clock_off").exists()
