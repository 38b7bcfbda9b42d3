"""healthz and readyz: each missing thing is named in words, and nothing secret or internal is said."""

import json

import pytest
from django.conf import settings
from django.db import DatabaseError
from django.test import Client

from console.health import checks as health
from console.health import heartbeat
from console.models import Heartbeat

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def not_cached(monkeypatch):
    monkeypatch.setattr(health, "_cached", (0.0, []))
    monkeypatch.setattr(health, "CACHE_SECONDS", 0.0)


def ready():
    answer = Client().get("/readyz")
    return answer.status_code, {name: check["ok"] for name, check in answer.json()["checks"].items()}, answer


def test_healthz_asks_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert Client().get("/healthz").json() == {"status": "alive"}


def test_ready_only_with_every_process_alive():
    status, checks, answer = ready()
    assert status == 503
    assert [name for name, is_ok in checks.items() if not is_ok] == [
        "delivery_process",
        "tasks_process",
        "beat_process",
    ]
    assert "celery -A config worker" in answer.json()["checks"]["delivery_process"]["detail"]
    for role in ("delivery", "tasks", "beat"):
        heartbeat.beat_once(role)
    assert ready()[0] == 200
    Heartbeat.objects.filter(role="beat").update(seen_at="2020-01-01T00:00Z")
    assert ready()[0] == 503


def test_a_missing_database_broker_or_layer_is_named(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise DatabaseError("password=hunter2 host=10.0.0.7")

    monkeypatch.setattr(health.connection, "cursor", refuse)
    monkeypatch.setattr(health, "_ask_broker", refuse)
    monkeypatch.setattr(health, "_ask_layer", refuse)
    monkeypatch.setattr(health.heartbeat, "fresh_counts", refuse)
    status, checks, answer = ready()
    assert status == 503
    assert not checks["database"] and not checks["broker"] and not checks["channel_layer"]
    text = answer.content.decode()
    assert "hunter2" not in text and "10.0.0.7" not in text
    assert settings.DATABASES["default"]["NAME"] not in text


def test_a_broker_that_hangs_is_given_up(monkeypatch):
    import threading

    release = threading.Event()
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(health, "_ask_broker", lambda: release.wait(5))
    assert "does not answer" in health.broker().words
    release.set()


def test_security_headers_are_strict_and_eval_is_for_the_admins_frame_only(operator):
    client = Client()
    assert client.get("/healthz")["Content-Security-Policy"].startswith("default-src 'none'")
    docs = client.get("/api/v1/docs/")
    assert "unsafe-eval" not in docs["Content-Security-Policy"]
    assert "cdn" not in docs.content.decode() and "<script>" not in docs.content.decode()
    client.force_login(operator)
    for path in ("/", "/admin/"):
        page = client.get(path)
        policy = page["Content-Security-Policy"]
        assert "script-src 'self' 'unsafe-eval';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "<script>" not in page.content.decode()
        assert (page["X-Content-Type-Options"], page["X-Frame-Options"]) == ("nosniff", "DENY")
        assert page["Cache-Control"]


def test_metrics_for_staff_and_for_an_unbound_key(operator, key, bound_key):
    text = Client(headers={"authorization": f"Bearer {key}"}).get("/metrics").content.decode()
    assert 'roundtrip_deliveries{state="dead_letter"} 0.0' in text
    assert 'roundtrip_tasks{state="pending"} 0.0' in text
    assert Client(headers={"authorization": f"Bearer {bound_key}"}).get("/metrics").status_code == 401
    client = Client()
    client.force_login(operator)
    assert client.get("/metrics/").status_code == 200


def test_stats_has_the_keys_of_the_specification(key):
    row = Client(headers={"authorization": f"Bearer {key}"}).get("/api/v1/stats/").json()
    asked = {"pending", "awaiting_retry", "in_flight", "dead_letter", "failed_last_hour", "oldest_pending"}
    assert asked | {"delivered_last_hour", "avg_delivery_ms_last_hour"} <= set(row)
    assert asked | {"succeeded_last_hour", "avg_task_ms_last_hour"} <= set(row["tasks"])
    json.dumps(row)


def test_a_clock_that_is_off_is_told_names_no_host_and_keeps_nobody_out_of_service():
    for role in ("delivery", "tasks", "beat"):
        heartbeat.beat_once(role)
    assert ready()[2].json()["checks"]["clocks"]["detail"] == "all within 5 s of the database's"
    Heartbeat.objects.filter(role="tasks").update(clock_ahead_ms=-15_000, process="tasks@secret-host:1")
    status, _checks, answer = ready()
    words = answer.json()["checks"]["clocks"]["detail"]
    assert status == 200 and words == "The clock of 1 process is 15 s behind. The alert clock_off names the host."
    assert "secret-host" not in answer.content.decode()
