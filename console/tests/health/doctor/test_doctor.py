"""The whole examination, also where a server is really away: no traceback, words for each, and the rest is tried."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from console.health import doctor
from console.health.checks import Check
from console.health.doctor.findings import Look, NotTried, guarded

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[4]
LONG = {"providers", "channel_layer_trip", "queues", "event"}
NEVER = {one.name for one in doctor.NEVER}


def server():
    ours = connection.settings_dict
    return f"postgresql://{ours['USER']}:{ours['PASSWORD']}@{ours['HOST'] or '127.0.0.1'}:{ours['PORT'] or 5432}"


def run(database=None, **told):
    """In a process of its own, as an operator does; the exit status is 1 in all of these tests."""
    database = database or f"{server()}/{connection.settings_dict['NAME']}"
    env = {**os.environ, "ROUNDTRIP_ENV": "test", "DATABASE_URL": database, **told}
    command = [sys.executable, "manage.py", "doctor", "--json"]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    return json.loads(ran.stdout)


def called(*words):
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", *words, stdout=out)
    assert ended.value.code == 1
    return out.getvalue()


def test_before_the_first_migrate_it_says_what_to_do():
    name = f"roundtrip_bare_{os.getpid()}"
    with psycopg.connect(f"{server()}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            report = run(f"{server()}/{name}")
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert "manage.py migrate" in report["checks"]["migrations"]["detail"]
    for left_out in ("processes", "stored_secrets", "event", "schedule"):
        assert report["not_tried"][left_out] == "`manage.py migrate` comes first"
    assert report["checks"]["channel_layer_trip"]["ok"]


def test_with_the_database_down_the_rest_is_examined():
    report = run("postgresql://nobody:x@127.0.0.1:9/none")
    checks, left_out = report["checks"], report["not_tried"]
    assert "correct DATABASE_URL" in checks["database"]["detail"] and not checks["database"]["ok"]
    for name in ("migrations", "clock", "stored_secrets", "processes", "queues", "event"):
        assert left_out[name] == "PostgreSQL does not answer"
    assert checks["broker"]["ok"] and checks["channel_layer_trip"]["ok"] and checks["master_keys"]["ok"]


def test_with_broker_and_channel_layer_down_the_rest_is_examined():
    report = run(CELERY_BROKER_URL="redis://127.0.0.1:9/0", CHANNEL_LAYER_URL="redis://127.0.0.1:9/0")
    checks, left_out = report["checks"], report["not_tried"]
    assert "correct CELERY_BROKER_URL" in checks["broker"]["detail"]
    assert "correct CHANNEL_LAYER_URL" in checks["channel_layer"]["detail"]
    assert left_out["queues"] == left_out["event"] == "the broker does not answer"
    assert left_out["channel_layer_trip"] == "the channel layer does not answer"
    assert checks["database"]["ok"] and checks["migrations"]["ok"]


def test_with_a_silent_rabbitmq_the_rest_is_examined():
    report = run(CELERY_BROKER_URL="amqp://127.0.0.1:9//")
    assert "correct CELERY_BROKER_URL" in report["checks"]["broker"]["detail"]
    assert report["checks"]["channel_layer_trip"]["ok"]


def test_with_keys_that_are_none_the_rest_is_examined():
    report = run(MASTER_KEYS="abc")
    assert "must list Fernet keys" in report["checks"]["master_keys"]["detail"]
    for name in ("stored_secrets", "endpoint_certificates", "event"):
        assert report["not_tried"][name] == "MASTER_KEYS cannot be used"
    assert report["checks"]["migrations"]["ok"]


def test_what_is_wrong_is_named_what_was_not_tried_too_and_no_secret_is_shown(settings):
    settings.PUBLIC_BASE_URL = "http://127.0.0.1:9"
    out = called("--json")
    report = json.loads(out)
    assert not report["ok"]
    assert report["checks"]["database"]["ok"] and report["checks"]["migrations"]["ok"]
    assert not report["checks"]["public_base_url"]["ok"]
    assert not report["checks"]["delivery_process"]["ok"]
    assert report["not_tried"]["event"] == "no delivery worker is up"
    assert set(report["not_tried"]) >= NEVER
    assert {row["name"] for row in report["environment"]} >= {"DATABASE_URL", "MASTER_KEYS", "PUBLIC_BASE_URL"}
    assert settings.SECRET_KEY not in out


def test_quick_leaves_out_what_takes_seconds_or_writes_and_says_so():
    report = json.loads(called("--json", "--quick"))
    assert {name for name, words in report["not_tried"].items() if words == doctor.QUICK} == LONG
    assert not LONG & set(report["checks"])


def test_the_ca_file_is_looked_at(settings, tmp_path):
    settings.DELIVERY_CA_FILE = str(tmp_path / "none.pem")
    row = json.loads(called("--json", "--quick"))["checks"]["delivery_ca_file"]
    assert not row["ok"] and "none.pem, which cannot be read" in str(row)


@pytest.mark.parametrize(
    ("secret", "is_ok", "words"),
    [
        ("whsec_!!!", False, "not base64"),
        ("", False, "no signing secret"),
        ("whsec_c2hvcnQ=", True, "5 bytes"),
        ("whsec_a2tra2tra2tra2tra2tra2tra2tra2tr", True, "can be used"),
    ],
)
def test_the_providers_signing_secrets_are_looked_at(settings, secret, is_ok, words):
    settings.SANDBOX_PROVIDER_URL, settings.SANDBOX_PROVIDER_KEY = "http://127.0.0.1:9", "key"
    settings.SANDBOX_WEBHOOK_SECRET = secret
    out = called("--json", "--quick")
    row = json.loads(out)["checks"]["signing_secret_sandbox"]
    assert row["ok"] is is_ok and words in row["detail"]
    assert not secret or secret not in out


def only(monkeypatch, *found):
    monkeypatch.setattr(doctor, "LOOKS", [Look(one.name, lambda one=one: one) for one in found])


def test_all_is_well_is_said_of_what_was_tried_and_of_nothing_else(monkeypatch):
    only(monkeypatch, Check("database", True, "reachable"), NotTried("queues", "nobody asked"))
    out = io.StringIO()
    call_command("doctor", stdout=out)  # exit 0
    text = out.getvalue()
    assert f"All is well with what was tried; {len(NEVER) + 1} things were not." in text
    assert "queues: nobody asked" in text and "ok   queues" not in text


def test_with_one_fault_nothing_says_that_all_is_well(monkeypatch):
    only(monkeypatch, Check("database", True, "reachable"), Check("broker", False, "Start it."))
    text = called()
    assert "BAD  broker" in text and "1 to mend" in text and "All is well" not in text


def test_what_fails_while_it_looks_is_a_fault_and_its_words_stay_inside():
    def fails():
        raise RuntimeError("a secret")

    (found,) = guarded(Look("event", fails))
    assert not found.is_ok and "RuntimeError in test_doctor.py:" in found.words and "a secret" not in found.words


def test_ctrl_c_ends_it_with_words_and_what_it_made_is_removed(monkeypatch):
    removed = []

    def interrupted():
        try:
            yield Check("event", True, "under way")
            raise KeyboardInterrupt
        finally:
            removed.append(1)

    monkeypatch.setattr(doctor, "LOOKS", [Look("event", interrupted)])
    err = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=io.StringIO(), stderr=err)
    assert (ended.value.code, removed) == (130, [1])
    assert "What it had made is removed" in err.getvalue()
