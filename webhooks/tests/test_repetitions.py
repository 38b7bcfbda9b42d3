"""What is the same event and what is not: an id that was signed, all of it; else what was signed."""

import gzip
import hashlib
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from kernel.auth import create_key
from tasks.models import Task
from tasks.providers.sandbox import SandboxProvider
from tasks.states import State
from webhooks import inbox, sources
from webhooks.models import InboundEvent, InboundVerdict
from webhooks.tests.conftest import SECRET
from webhooks.tests.test_receive import everything, raw_signature, result

DONE = {"job_id": "j1", "status": "completed"}
PROGRESS = {"job_id": "j1", "status": "processing", "progress": 40}


@pytest.mark.parametrize("length", [196, 197, 198, 200, 1_000, 4_000])
def test_ids_that_differ_in_their_last_character_are_two_events(post, running, length):
    running("j1"), running("j2")
    start = "m" * (length - 1)
    assert result(post(DONE, event_id=f"{start}1")) == ("accepted", None)
    assert result(post({**DONE, "job_id": "j2"}, event_id=f"{start}2")) == ("accepted", None)
    assert result(post(DONE, event_id=f"{start}1")) == ("ignored", "duplicate_event")
    assert InboundEvent.objects.count() == 2
    assert Task.objects.filter(state=State.FETCHING).count() == 2


@pytest.mark.parametrize("event_id", ["msg_1", "m" * 150, "m" * 300])
def test_another_body_under_the_same_id_is_kept_and_judged(post, running, event_id):
    task = running()
    assert result(post(PROGRESS, event_id=event_id)) == ("applied", None)
    assert result(post(DONE, event_id=event_id)) == ("accepted", None)
    task.refresh_from_db()
    assert task.state == State.FETCHING
    first, second = InboundEvent.objects.order_by("id")
    assert [json.loads(bytes(row.body)) for row in (first, second)] == [PROGRESS, DONE]
    assert [row.is_id_reused for row in (first, second)] == [False, True]
    before = everything()
    for body in (PROGRESS, DONE, DONE):
        assert result(post(body, event_id=event_id)) == ("ignored", "duplicate_event")
    assert everything() == before
    assert list(InboundEvent.objects.order_by("id").values_list("duplicate_count", flat=True)) == [1, 2]


def test_an_id_reused_is_shown_on_page_list_and_api(post, running):
    running()
    post(PROGRESS, event_id="msg_1"), post(DONE, event_id="msg_1"), post(DONE, event_id="msg_2")
    first, second, other = InboundEvent.objects.order_by("id")
    client = Client()
    client.force_login(User.objects.create_superuser("op"))
    address = "admin:webhooks_inboundevent_change"
    assert "Its id came before" in client.get(reverse(address, args=[second.pk])).content.decode()
    assert "Its id came before" not in client.get(reverse(address, args=[first.pk])).content.decode()
    found = client.get(reverse("admin:webhooks_inboundevent_changelist"), {"q": "msg_1"}).content.decode()
    shown = [reverse(address, args=[row.pk]) in found for row in (first, second, other)]
    assert shown == [True, True, False]
    _, token = create_key("test", ["tasks:read"])
    rows = Client().get("/api/v1/inbound-events/", headers={"authorization": f"Bearer {token}"}).json()["results"]
    assert [row["is_id_reused"] for row in rows] == [False, True, False]


def test_the_same_body_packed_anew_is_the_same_event(post, running):
    running()
    body = json.dumps(DONE).encode()
    for moment in (1, 2):
        packed = gzip.compress(body, mtime=moment)
        now = int(timezone.now().timestamp())
        answer = post(
            packed,
            webhook_id="msg_1",
            webhook_timestamp=str(now),
            webhook_signature=raw_signature(packed, "msg_1", now),
            content_encoding="gzip",
        )
    assert result(answer) == ("ignored", "duplicate_event")
    assert InboundEvent.objects.get().duplicate_count == 1


def hub(body: bytes, delivery: str):
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={digest}", "x-github-delivery": delivery}
    return Client().post("/webhooks/sandbox/", body, content_type="application/json", headers=headers)


def bearer(body: bytes, dispatch: str):
    headers = {"authorization": f"Bearer {SECRET}", "x-apify-webhook-dispatch-id": dispatch}
    return Client().post("/webhooks/sandbox/", body, content_type="application/json", headers=headers)


@pytest.mark.parametrize(("scheme", "send"), [("hmac_sha256_hex", hub), ("shared_token", bearer)])
def test_an_id_that_nobody_signed_neither_hides_an_event_nor_makes_one_new(monkeypatch, running, scheme, send):
    """Whoever has seen one call can send its body under any id, and an id before its owner does."""
    task = running()
    monkeypatch.setattr(SandboxProvider, "scheme", scheme)
    progress, done = (json.dumps(body).encode() for body in (PROGRESS, DONE))
    assert result(send(progress, "d-1")) == ("applied", None)
    assert result(send(progress, "d-2")) == ("ignored", "duplicate_event")
    assert result(send(done, "d-1")) == ("accepted", None)
    task.refresh_from_db()
    assert task.state == State.FETCHING
    assert [bytes(row.body) for row in InboundEvent.objects.order_by("id")] == [progress, done]
    assert [row.is_id_reused for row in InboundEvent.objects.all()] == [False, False]


def test_what_cannot_be_read_is_kept_once_however_often_it_comes(post):
    for _ in range(3):
        assert post(b'{"nothing": 1}', event_id="msg_1").status_code == 400
    event = InboundEvent.objects.get()
    assert (event.verdict, event.duplicate_count) == (InboundVerdict.UNPARSEABLE, 2)
    assert post(b'{"nothing": 2}', event_id="msg_1").status_code == 400
    assert InboundEvent.objects.count() == 2


def test_a_genuine_event_that_cannot_be_read_is_kept_whatever_else_was_refused(post, settings, monkeypatch):
    settings.INBOUND_REFUSED_BYTES_A_DAY = 0
    monkeypatch.setattr("webhooks.refusals.STORED_PER_HOUR", 0)
    for number in range(5):
        assert post({"nothing": number}).status_code == 400
    assert InboundEvent.objects.filter(verdict=InboundVerdict.UNPARSEABLE).count() == 5


def test_an_unread_event_that_comes_again_is_judged_by_a_mended_adapter(post, running, monkeypatch):
    task = running()
    with monkeypatch.context() as patched:
        patched.setattr("tasks.providers.sandbox.payloads.parse", lambda *_: 1 / 0)
        assert post(DONE, event_id="msg_1").status_code == 400
    assert result(post(DONE, event_id="msg_1")) == ("accepted", None)
    task.refresh_from_db()
    assert task.state == State.FETCHING
    assert sorted(InboundEvent.objects.values_list("verdict", flat=True)) == ["unparseable", "verified"]


def test_one_event_that_breaks_the_judging_keeps_no_other_from_it(post, running, monkeypatch):
    """It is answered 2xx, since it is stored; tried again for an hour; and then told as a fault of ours."""
    bad, good = running("bad"), running("good")
    real = inbox.judge

    def breaks(event, *args, **named):
        if event.pk == InboundEvent.objects.order_by("id").first().pk:
            raise ZeroDivisionError
        return real(event, *args, **named)

    monkeypatch.setattr(inbox, "judge", breaks)
    assert result(post({"job_id": "bad", "status": "completed"})) == ("accepted", "apply_failed")
    post({"job_id": "good", "status": "completed"})
    InboundEvent.objects.update(outcome="", results=[], judged_at=None)
    Task.objects.filter(pk=good.pk).update(state=State.RUNNING)
    assert inbox.sweep(timezone.now() + timedelta(seconds=11)) == 2
    good.refresh_from_db(), bad.refresh_from_db()
    assert (good.state, bad.state) == (State.FETCHING, State.RUNNING)
    assert InboundEvent.objects.order_by("id").first().outcome == ""
    inbox.sweep(timezone.now() + timedelta(minutes=61))
    first = InboundEvent.objects.order_by("id").first()
    assert (first.outcome, first.reason) == ("ignored", "apply_failed")
    assert inbox.sweep(timezone.now() + timedelta(minutes=62)) == 0


def test_the_sweep_looks_first_at_who_was_looked_at_longest_ago(post, running, monkeypatch):
    monkeypatch.setattr(inbox, "SWEEP_LIMIT", 2)
    running("", state="submitting")
    for number in range(4):
        post({"job_id": f"j{number}", "status": "completed"})
    looked_at = []
    real = inbox._judge_stored
    monkeypatch.setattr(inbox, "_judge_stored", lambda event, now: (looked_at.append(event.pk), real(event, now)))
    for seconds in (1, 2):
        inbox.sweep(timezone.now() + timedelta(seconds=seconds))
    assert sorted(looked_at) == sorted(InboundEvent.objects.values_list("pk", flat=True))


@pytest.mark.django_db(transaction=True)
def test_bodies_that_come_at_once_under_one_id_are_all_judged_once(running):
    """However the race ends, each body has one row, and one of them is the first."""
    ids = [f"j{number}" for number in range(4)]
    for job_id in ids:
        running(job_id)
    source = sources.resolve("sandbox")
    now = int(timezone.now().timestamp())

    def call(job_id: str) -> str:
        body = json.dumps({"job_id": job_id, "status": "completed"}).encode()
        headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now)}
        headers["webhook-signature"] = raw_signature(body, "msg_1", now)
        try:
            return inbox.receive(source, body, headers, None).body["status"]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(call, ids * 2))
    assert answers.count("accepted") >= 4
    assert Task.objects.filter(state=State.FETCHING).count() == 4
    rows = InboundEvent.objects.all()
    assert (rows.count(), rows.filter(is_id_reused=False).count()) == (4, 1)
    assert sum(rows.values_list("duplicate_count", flat=True)) == 4
