"""What is kept of refused calls: bounded by the hour and by the day's bytes, for a shorter time; genuine ones never."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import checks as django_checks
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from structlog.testing import capture_logs

from tasks.models import Task
from tasks.providers.sandbox import SandboxProvider
from tasks.states import State
from webhooks import checks, refusals, retention
from webhooks.models import TURNED_AWAY, UNREAD, InboundEvent, RefusedCall, RefusedDay
from webhooks.tests.test_receive import result

DONE = {"job_id": "j1", "status": "completed"}
MAP, SCORING = "/webhooks/map-search/sandbox/", "/webhooks/scoring/sandbox/"


def junk(size: int = 10_000) -> bytes:
    return os.urandom(size)


def refused(post, path: str = MAP, body: bytes | None = None) -> int:
    return post(junk() if body is None else body, path=path, webhook_signature="v1,AAAA").status_code


def stored(source: str = "map_search/sandbox"):
    return InboundEvent.objects.filter(source=source, verdict="refused")


def test_a_source_stores_its_days_bytes_and_only_counts_what_is_beyond(post, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 40_000
    assert {refused(post) for _ in range(6)} == {401}
    assert stored().count() == 3
    day = RefusedDay.objects.get()
    assert (day.source, day.stored_count, day.beyond_count) == ("map_search/sandbox", 3, 3)
    assert day.stored_bytes == 3 * (10_000 + refusals.ROW_BYTES)
    assert RefusedCall.objects.get().count == 6


def test_a_small_call_still_fits_where_a_large_one_does_not(post, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 20_000
    for body in (junk(10_000), junk(10_000), b"{}"):
        refused(post, body=body)
    assert [row.body_bytes for row in stored().order_by("id")] == [10_000, 2]


def test_each_source_has_a_budget_of_its_own(post, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 12_000
    for path in (MAP, MAP, SCORING, SCORING):
        refused(post, path)
    assert stored().count() == stored("scoring/sandbox").count() == 1


@pytest.mark.parametrize("budget", [0, -1, 5_000])
def test_a_budget_that_fits_nothing_stores_nothing(post, settings, budget):
    settings.INBOUND_REFUSED_BYTES_A_DAY = budget
    refused(post)
    assert not InboundEvent.objects.exists()
    assert RefusedDay.objects.get().beyond_count == 1


def test_tomorrow_has_a_budget_of_its_own(post, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 12_000
    refused(post), refused(post)
    assert [row["is_used_up"] for row in refusals.budgets()] == [True]
    RefusedDay.objects.update(day=RefusedDay.objects.get().day - timedelta(days=1))
    assert [row["is_used_up"] for row in refusals.budgets()] == [False]
    refused(post)
    assert stored().count() == 2


def test_genuine_events_are_never_touched_by_the_budget(post, running, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 0
    task = running()
    refused(post)
    before = list(RefusedDay.objects.values()), list(RefusedCall.objects.values())
    assert result(post(DONE)) == ("accepted", None)
    task.refresh_from_db()
    assert task.state == State.FETCHING
    assert (list(RefusedDay.objects.values()), list(RefusedCall.objects.values())) == before


def test_the_log_tells_once_that_the_budget_is_used_up_and_is_no_flood_itself(post, settings, monkeypatch, caplog):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 12_000
    monkeypatch.setattr(refusals, "STORED_PER_HOUR", 5)
    with capture_logs() as lines:
        for _ in range(9):
            refused(post)
    told = [line["event"] for line in lines if line["event"].startswith("inbound_")]
    assert told.count("inbound_refused_budget_used_up") == 1
    assert told.count("inbound_call_refused") == 5
    assert [record for record in caplog.records if record.name == "django.request"] == []


def test_a_call_that_cannot_be_unpacked_comes_out_of_the_budget_too(post, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 12_000
    for _ in range(3):
        assert post(junk(), webhook_signature="v1,AAAA", content_encoding="gzip").status_code == 400
    assert InboundEvent.objects.filter(verdict_reason="bad_encoding").count() == 1


def test_refused_calls_go_sooner_than_genuine_ones(post, running, settings):
    running()
    post(DONE), post({"nothing": 1})  # genuine: one was taken, one cannot be read
    refused(post), post(junk(), webhook_signature="v1,AAAA", content_encoding="gzip")
    InboundEvent.objects.update(
        received_at=timezone.now() - timedelta(days=settings.INBOUND_REFUSED_RETENTION_DAYS + 1)
    )
    assert retention.prune(timezone.now()) == 2
    assert sorted(InboundEvent.objects.values_list("verdict", flat=True)) == ["unparseable", "verified"]
    InboundEvent.objects.update(received_at=timezone.now() - timedelta(days=settings.EVENT_RETENTION_DAYS + 1))
    RefusedDay.objects.update(day=timezone.now().date() - timedelta(days=settings.EVENT_RETENTION_DAYS + 2))
    assert retention.prune(timezone.now()) == 2
    assert not InboundEvent.objects.exists() and not RefusedDay.objects.exists()


def test_the_pages_say_what_was_refused_today_and_that_the_budget_is_used_up(post, settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 12_000
    refused(post), refused(post)
    client = Client()
    client.force_login(User.objects.create_superuser("op"))
    for page in ("inboundevent", "refusedcall"):
        shown = client.get(reverse(f"admin:webhooks_{page}_changelist")).content.decode()
        assert "2 refused today, 1 of them stored" in shown
        assert "The day&#x27;s budget is used up" in shown


def test_long_headers_are_kept_cut_and_say_so(post, running):
    running()
    assert result(post(DONE, user_agent="u" * 5_000, x_client_cert="c" * 60_000)) == ("accepted", None)
    headers = InboundEvent.objects.get().headers
    assert headers["user-agent"] == "u" * 500 + "… (cut: 5,000 characters)"
    assert "x-client-cert" not in headers


@pytest.mark.parametrize("secret", ["", "   ", "whsec_!!!", "no base64 at all"])
def test_without_a_usable_secret_the_provider_is_asked_to_send_again(post, running, settings, secret):
    task = running()
    settings.SANDBOX_WEBHOOK_SECRET = secret
    answer = post(DONE, event_id="msg_1")
    wanted = "secret_unusable" if secret.strip() else "no_secret_configured"
    assert (answer.status_code, answer.json()["reason"]) == (503, wanted)
    assert int(answer.headers["Retry-After"]) > 0
    settings.SANDBOX_WEBHOOK_SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"
    assert result(post(DONE, event_id="msg_1")) == ("accepted", None)
    task.refresh_from_db()
    assert task.state == State.FETCHING


@pytest.mark.parametrize("broken", [lambda _self: 1 / 0, lambda _self: None])
def test_secrets_that_cannot_be_had_are_no_wrong_signature(post, running, monkeypatch, broken):
    running()
    with monkeypatch.context() as patched:
        patched.setattr(SandboxProvider, "secrets", broken)
        answer = post(DONE, event_id="msg_1")
    assert (answer.status_code, answer.json()["reason"]) == (503, "secrets_unavailable")
    assert Task.objects.get().state == State.RUNNING
    assert result(post(DONE, event_id="msg_1")) == ("accepted", None)


def test_an_unknown_scheme_is_our_fault_and_not_the_providers(post, monkeypatch):
    monkeypatch.setattr(SandboxProvider, "scheme", "rot13")
    answer = post(DONE)
    assert (answer.status_code, answer.json()["reason"]) == (503, "unknown_scheme")
    assert "rot13" in checks.secret_faults()["sandbox"][0]


@pytest.mark.parametrize(
    ("secret", "check", "words"),
    [
        ("whsec_!!!", "webhooks.W001", "not base64"),
        ("whpk_AAAA", "webhooks.W001", "v1a"),
        ("", "webhooks.W001", "no signing secret"),
        ("whsec_c2hvcnQ=", "webhooks.W002", "5 bytes"),
    ],
)
def test_a_secret_that_cannot_be_used_is_told_at_start_and_on_the_page(db, settings, secret, check, words):
    settings.SANDBOX_WEBHOOK_SECRET = secret
    found = [message for message in django_checks.run_checks() if message.id == check]
    assert [words in message.msg for message in found] == [True]
    assert not secret or secret not in f"{found[0].msg}{found[0].hint}"
    client = Client()
    client.force_login(User.objects.create_superuser("op"))
    assert words in client.get(reverse("admin:webhooks_inboundevent_changelist")).content.decode()


def test_good_secrets_and_secrets_that_cannot_be_had_are_told_apart(monkeypatch):
    assert (checks.secret_faults(), checks.secret_doubts()) == ({}, {})
    monkeypatch.setattr(SandboxProvider, "secrets", lambda _self: 1 / 0)
    assert checks.secret_faults() == {
        "sandbox": ["The signing secrets of sandbox could not be had just now (ZeroDivisionError)."]
    }
    assert checks.secret_doubts() == {}


@pytest.mark.django_db(transaction=True)
def test_calls_that_come_at_once_never_take_more_than_the_days_budget(settings):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 50_000

    def take(_number: int) -> int:
        try:
            return sum(refusals._has_room("sandbox", 1_000) for _ in range(20))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take, range(4))) == 50
    day = RefusedDay.objects.get()
    assert (day.stored_count, day.stored_bytes, day.beyond_count) == (50, 50_000, 30)


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        (InboundEvent.objects.filter(TURNED_AWAY).order_by("id"), "inboundevent_turned_away"),
        (InboundEvent.objects.filter(UNREAD, source="s", dedupe_key="k").order_by(), "inboundevent_unread"),
        (
            InboundEvent.objects.filter(is_id_reused=True, dedupe_key__startswith="reused:m#").order_by(),
            "inboundevent_reused",
        ),
    ],
    ids=["turned away", "unread", "reused"],
)
def test_what_the_inbox_looks_for_has_its_index(db, rows, index):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    assert index in rows.explain()
