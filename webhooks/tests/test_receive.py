"""Calls that come in: what is taken, what is refused, what each answer says, and what it leaves behind."""

import gzip
import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from delivery.models import Event
from delivery.tests import wire
from kernel.tests.off_hosts import host_off_by
from tasks.models import ExternalJob, Task, Transition
from tasks.states import State
from webhooks import inbox, refusals
from webhooks.models import InboundEvent, InboundVerdict, RefusedCall
from webhooks.tests.conftest import SECRET

DONE = {"job_id": "j1", "status": "completed"}


def result(response) -> tuple[str, str | None]:
    assert response.status_code == 200, response.content
    return response.json()["status"], response.json().get("reason")


def everything() -> tuple:
    """What a refused call must leave as it was."""
    tasks = list(Task.objects.order_by("pk").values())
    jobs = list(ExternalJob.objects.order_by("pk").values())
    return tasks, jobs, Transition.objects.count(), Event.objects.count()


def test_completed_is_accepted_and_the_result_is_left_to_the_fetch(post, running):
    task = running()
    response = post(DONE)
    assert response.json() == {"status": "accepted", "results": [{"job_id": "j1", "status": "accepted"}]}
    task.refresh_from_db()
    assert (task.state, task.result) == (State.FETCHING, None)
    event = InboundEvent.objects.get()
    assert (event.source, event.verdict, event.outcome) == ("map_search/sandbox", "verified", "accepted")
    assert bytes(event.body) == json.dumps(DONE).encode()
    assert event.correlation_id == task.correlation_id
    assert event.results == [{"job_id": "j1", "status": "accepted", "task_id": task.pk}]


@pytest.mark.parametrize("hours", [1, -1])
def test_a_web_host_an_hour_off_takes_what_a_right_clock_has_signed_and_nothing_else(post, running, hours):
    running()
    right = datetime.now(UTC)
    with host_off_by(timedelta(hours=hours)):
        assert post(DONE, at=right).json()["status"] == "accepted"
        refused = post(DONE, at=right + timedelta(hours=hours))
        assert (refused.status_code, refused.json()["reason"]) == (401, "timestamp_outside_tolerance")
    assert abs(InboundEvent.objects.get(verdict="verified").received_at - right) < timedelta(minutes=1)


def test_progress_is_applied_and_goes_forward_only(post, running):
    task = running()
    assert result(post({"job_id": "j1", "status": "processing", "progress": 40})) == ("applied", None)
    assert result(post({"job_id": "j1", "status": "processing", "progress": 20})) == ("ignored", "invalid_transition")
    task.refresh_from_db()
    assert task.progress == 40


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/map-search/sandbox/",
        "/webhooks/map_search/sandbox",
        "/webhooks/MAP-search",
        "/webhooks/map_search/",
        "/webhooks/scoring/sandbox/",
        "/webhooks/sandbox/",
        "/webhooks/sandbox",
    ],
)
def test_every_spelling_of_the_address_is_a_door(post, running, path):
    running()
    assert result(post(DONE, path=path))[0] == "accepted"


def test_spellings_of_one_source_share_their_duplicates(post, running):
    running()
    post(DONE, event_id="msg_1", path="/webhooks/map-search/")
    assert result(post(DONE, event_id="msg_1", path="/webhooks/map_search/sandbox")) == ("ignored", "duplicate_event")


@pytest.mark.parametrize("path", ["/webhooks/juggling/", "/webhooks/map_search/nobody/", "/webhooks/sandbox/sandbox/"])
def test_an_unknown_address_is_a_404_that_is_only_counted(post, path):
    assert post(DONE, path=path).status_code == 404
    assert not InboundEvent.objects.exists()
    assert RefusedCall.objects.get().reason == "unknown_source"


def test_the_same_event_again_changes_nothing(post, running):
    running()
    post(DONE, event_id="msg_1")
    before = everything()
    response = post(DONE, event_id="msg_1", at=timezone.now() - timedelta(seconds=60))
    assert response.json() == {
        "status": "ignored",
        "reason": "duplicate_event",
        "results": [{"job_id": "j1", "status": "ignored", "reason": "duplicate_event"}],
    }
    assert everything() == before
    assert InboundEvent.objects.get().duplicate_count == 1


def test_a_stored_event_without_outcome_is_judged_by_its_repetition(post, running):
    running()
    post({"job_id": "j1", "status": "processing", "progress": 5}, event_id="msg_1")
    InboundEvent.objects.update(outcome="", results=[], judged_at=None)
    assert result(post({"job_id": "j1", "status": "processing", "progress": 5}, event_id="msg_1"))[1] != (
        "duplicate_event"
    )
    assert InboundEvent.objects.get().outcome


def test_disorder_and_late_events_are_named(post, running):
    task = running()
    assert result(post(DONE)) == ("accepted", None)
    assert result(post(DONE)) == ("ignored", "duplicate_completed")
    late = post({"job_id": "j1", "status": "processing", "progress": 90})
    assert result(late) == ("ignored", "invalid_transition")
    assert result(post({"job_id": "j1", "status": "failed"})) == ("ignored", "invalid_transition")
    steps = task.transitions.order_by("id").values_list("to_state", flat=True)
    assert list(steps) == ["queued", "fetching"]


def test_unknown_words_are_named_and_change_nothing(post, running):
    task = running()
    assert result(post({"job_id": "j1", "status": "resurrected"})) == ("ignored", "unknown_status")
    assert result(post({"type": "account.updated"})) == ("ignored", "unknown_event")
    assert result(post({"job_id": "stranger", "status": "completed"})) == ("ignored", "task_not_found")
    task.refresh_from_db()
    assert task.state == State.RUNNING


def test_one_request_updates_many_tasks(post, running):
    for number in range(5):
        running(f"j{number}")
    jobs = [{"job_id": f"j{number}", "status": "completed"} for number in range(5)]
    jobs += [{"job_id": "stranger", "status": "completed"}, {"job_id": "j0", "status": "completed"}]
    response = post({"batch_id": "b1", "jobs": jobs})
    assert response.json()["status"] == "accepted"
    assert [(row["status"], row.get("reason")) for row in response.json()["results"]] == [
        *[("accepted", None)] * 5,
        ("ignored", "task_not_found"),
        ("ignored", "duplicate_completed"),
    ]
    assert Task.objects.filter(state=State.FETCHING).count() == 5


def test_the_whole_is_applied_if_any_job_was(post, running):
    running("j0")
    running("j1")
    jobs = [{"job_id": "j0", "status": "completed"}, {"job_id": "j1", "status": "processing", "progress": 1}]
    assert result(post({"jobs": jobs})) == ("applied", None)


def test_forty_jobs_take_as_many_statements_as_two(post, running):
    def statements(jobs):
        for job_id in jobs:
            running(job_id)
        with wire.counted() as sent:
            answer = post({"jobs": [{"job_id": job_id, "status": "completed"} for job_id in jobs]})
        assert result(answer) == ("accepted", None)
        return sent.statements

    few = statements([f"few{n}" for n in range(2)])
    assert statements([f"many{n}" for n in range(40)]) == few <= 30


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sent": json.dumps({**DONE, "job_id": "j2"}).encode()}, "signature_wrong"),
        ({"secret": "whsec_" + b64encode(b"x" * 24).decode()}, "signature_wrong"),
        ({"at": timezone.now() - timedelta(seconds=400)}, "timestamp_outside_tolerance"),
        ({"at": timezone.now() + timedelta(days=3650)}, "timestamp_outside_tolerance"),
        ({"webhook_signature": None}, "signature_missing"),
        ({"webhook_id": None}, "signature_missing"),
        ({"webhook_timestamp": None}, "signature_missing"),
        ({"webhook_signature": "v1,\x80\xff"}, "signature_wrong"),
        ({"webhook_signature": ", , v1"}, "signature_wrong"),
        ({"webhook_timestamp": "1e9"}, "signature_malformed"),
    ],
)
def test_a_401_changes_nothing_and_is_kept_with_its_reason(post, running, change, reason):
    running()
    before = everything()
    response = post(DONE, **change)
    assert (response.status_code, response.json()["reason"]) == (401, reason)
    assert everything() == before
    event = InboundEvent.objects.get()
    assert (event.verdict, event.verdict_reason, event.outcome) == ("refused", reason, "")


def test_a_forged_copy_does_not_take_the_real_ones_place(post, running):
    running()
    post(DONE, event_id="msg_1", secret="whsec_" + b64encode(b"x" * 24).decode())
    assert result(post(DONE, event_id="msg_1")) == ("accepted", None)


def test_a_flood_of_bad_signatures_is_counted_not_stored(post, monkeypatch):
    monkeypatch.setattr(refusals, "STORED_PER_HOUR", 3)
    for _ in range(5):
        assert post(DONE, webhook_signature="v1,AAAA").status_code == 401
    assert InboundEvent.objects.count() == 3
    assert RefusedCall.objects.get().count == 5


def test_of_a_refused_body_only_the_head_is_kept(post):
    post({"job_id": "j1", "status": "completed", "error": "x" * 100_000}, webhook_signature="v1,AAAA")
    event = InboundEvent.objects.get()
    assert (len(event.body), event.body_bytes > 100_000) == (65536, True)


def test_no_credential_is_kept(post):
    post(DONE, authorization="Bearer hush", cookie="sessionid=hush", x_api_key="hush")
    event = InboundEvent.objects.get()
    assert "hush" not in json.dumps(event.headers)
    assert set(event.headers) <= {"content-type", "webhook-id", "webhook-timestamp", "user-agent"}


HOSTILE = [
    b"",
    b"null",
    b"[]",
    b"7",
    b"{",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"job_id": "\\u0000", "status": "completed"}',
    b'{"job_id": "\\ud800", "status": "completed"}',
    b'{"job_id": "j1", "job_id": "j2", "status": "completed"}',
    b'{"job_id": {}, "status": []}',
    b'{"jobs": {"job_id": "j1"}}',
    b'{"jobs": [1, null]}',
    b'{"job_id": "' + b"x" * 300 + b'", "status": "completed"}',
    b"1" * 100_000,
]


def raw_signature(body: bytes, event_id: str, timestamp: int) -> str:
    """The library signs text only; hostile bytes are signed by hand."""
    key = b64decode(SECRET.removeprefix("whsec_"))
    return (
        "v1," + b64encode(hmac.new(key, f"{event_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()).decode()
    )


@pytest.mark.parametrize("body", HOSTILE)
def test_hostile_bodies_are_a_400_though_signed(db, running, body):
    running()
    before = everything()
    now = int(timezone.now().timestamp())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": raw_signature(body, "msg_1", now),
    }
    response = Client().post("/webhooks/sandbox/", body, content_type="application/json", headers=headers)
    assert (response.status_code, response.json()["reason"]) == (400, "not_parseable")
    assert everything() == before
    event = InboundEvent.objects.get()
    assert (event.verdict, bytes(event.body)) == (InboundVerdict.UNPARSEABLE, body)


NAMES = st.sampled_from(["job_id", "jobs", "status", "progress", "error", "type", "batch_id", "finished_at"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


@hypothesis_settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_no_payload_makes_a_500(post, running, payload):
    body = json.dumps(payload).encode()
    now = int(timezone.now().timestamp())
    event_id = f"msg_{hashlib.sha256(body).hexdigest()}"
    response = post(
        body,
        webhook_id=event_id,
        webhook_timestamp=str(now),
        webhook_signature=raw_signature(body, event_id, now),
    )
    assert response.status_code in {200, 400}


def test_gzip_signed_as_sent_or_signed_before(post, running):
    running()
    body = json.dumps(DONE).encode()
    packed = gzip.compress(body)
    assert result(post(DONE, sent=packed, content_encoding="gzip"))[0] == "accepted"
    now = int(timezone.now().timestamp())
    signature = raw_signature(packed, "msg_9", now)
    again = post(
        packed, webhook_id="msg_9", webhook_timestamp=str(now), webhook_signature=signature, content_encoding="gzip"
    )
    assert result(again) == ("ignored", "duplicate_completed")
    assert {bytes(event.body) for event in InboundEvent.objects.all()} == {packed}


@pytest.mark.parametrize(
    ("sent", "encoding", "status"),
    [(b"junk", "gzip", 400), (b"{}", "br", 400), (gzip.compress(b"0" * 50_000_000, mtime=0), "gzip", 413)],
)
def test_hostile_encodings(post, sent, encoding, status):
    assert post(DONE, sent=sent, content_encoding=encoding).status_code == status


def test_the_body_cap(post, settings, running):
    running()
    settings.INBOUND_MAX_BYTES = 2000
    assert post({**DONE, "error": "x" * 3000}).status_code == 413
    assert not InboundEvent.objects.exists()
    assert RefusedCall.objects.get().reason == "too_large"
    assert post({**DONE, "error": "x" * 1000}).status_code == 200


def test_other_methods(db):
    client = Client()
    for path in ("/webhooks/map-search/sandbox", "/webhooks/map-search/sandbox/"):
        assert client.head(path).status_code == 200
        for method in (client.get, client.put, client.delete, client.options):
            response = method(path)
            assert response.status_code == 405
            assert response.headers["Allow"] == "POST, HEAD"


@pytest.mark.parametrize("path", ["nosuch", "nosuch/", "map-search/nosuch/", "sandbox/nosuch", "scoring/a/b/"])
def test_an_address_without_a_source_is_404_by_every_method(db, path):
    """Whoever tests an address by HEAD must not be told that it takes calls."""
    client = Client()
    for method in (client.head, client.get, client.options, client.put, client.delete, client.post):
        assert method(f"/webhooks/{path}").status_code == 404, method


def test_a_door_that_is_open_by_any_spelling_answers_head(db):
    client = Client()
    for path in ("map_search", "map-search/", "scoring/sandbox", "sandbox/"):
        assert client.head(f"/webhooks/{path}").status_code == 200
        assert client.get(f"/webhooks/{path}").status_code == 405


def test_no_session_no_cookie_no_redirect(post, running):
    running()
    response = post(DONE, path="/webhooks/map-search", cookie="sessionid=" + "a" * 32)
    assert response.status_code == 200
    assert not response.cookies
    assert "Cookie" not in response.headers.get("Vary", "")


def test_without_a_database_the_provider_is_asked_to_repeat(post, running, monkeypatch):
    running()

    def down(*_args, **_kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr(inbox, "_store", down)
    response = post(DONE)
    assert (response.status_code, response.json()["reason"]) == (503, "database_unavailable")
    assert int(response.headers["Retry-After"]) > 0


def test_a_database_lost_while_applying_leaves_the_event_for_the_repetition(post, running, monkeypatch):
    running()
    with monkeypatch.context() as patched:
        patched.setattr("webhooks.judging.external.apply_many", _lost)
        assert post(DONE, event_id="msg_1").status_code == 503
    assert InboundEvent.objects.get().outcome == ""
    assert result(post(DONE, event_id="msg_1")) == ("accepted", None)


def _lost(*_args, **_kwargs):
    raise OperationalError("terminating connection")


def test_a_fault_in_one_update_does_not_hold_the_others(post, running, monkeypatch):
    from tasks import external

    running("good")
    running("bad")
    real = external.apply_many

    def faulty(updates, **named):
        if any(update.job_id == "bad" for update in updates):
            raise ZeroDivisionError
        return real(updates, **named)

    jobs = [{"job_id": "good", "status": "completed"}, {"job_id": "bad", "status": "completed"}]
    with monkeypatch.context() as patched:
        patched.setattr("webhooks.judging.external.apply_many", faulty)
        response = post({"jobs": jobs})
    assert [row.get("reason") for row in response.json()["results"]] == [None, "apply_failed"]
    assert InboundEvent.objects.get().parked_until is not None
    inbox.sweep(timezone.now())
    assert Task.objects.filter(state=State.FETCHING).count() == 2
    assert InboundEvent.objects.get().parked_until is None


def test_a_bad_entry_is_answered_by_itself_and_the_others_are_taken(post, running):
    task = running()
    jobs = [DONE, {"job_id": "j1", "status": None}, {"job_id": "x" * 300, "status": "completed"}, 7]
    response = post({"jobs": jobs})
    assert result(response) == ("accepted", None)
    good, *bad = response.json()["results"]
    assert (good["job_id"], good["status"]) == ("j1", "accepted")
    assert [(row["status"], row["reason"]) for row in bad] == [("ignored", "unreadable_entry")] * 3
    assert bad[0]["detail"] == "jobs[1] has no status" and bad[2]["job_id"] == ""
    task.refresh_from_db()
    assert task.state == State.FETCHING
