"""What senders and the proxies between do to calls: none of it is a 500, and none of it loses a valid event."""

import gzip
import json
import zlib
from dataclasses import replace
from datetime import timedelta
from io import BytesIO

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.test import Client
from django.utils import timezone
from standardwebhooks import Webhook

from tasks.models import Task
from tasks.providers.base import ParsedCallback, ProviderUpdate
from tasks.providers.sandbox import SandboxProvider
from tasks.states import JobStatus, State
from webhooks import inbox, views
from webhooks.models import InboundEvent, InboundVerdict
from webhooks.tests.conftest import SECRET
from webhooks.tests.test_receive import everything, raw_signature, result

DONE = {"job_id": "j1", "status": "completed"}


def send(body: bytes, *, content_type: str = "application/json", path: str = "/webhooks/sandbox/", **headers: str):
    """Signed over the bytes as they are."""
    now = int(timezone.now().timestamp())
    signed = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": raw_signature(body, "msg_1", now),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    client = Client(enforce_csrf_checks=True)
    return client.generic("POST", path, body, content_type=content_type, headers=signed)  # `post` would encode anew


def test_a_body_written_anew_on_the_way_is_refused(post, running):
    running()
    before = everything()
    answer = post(DONE, sent=json.dumps(DONE, separators=(",", ":")).encode())
    assert (answer.status_code, answer.json()["reason"]) == (401, "signature_wrong")
    assert everything() == before


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=latin-1",
        "text/plain; charset=utf-16",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/octet-stream",
        "nonsense",
        "",
    ],
)
def test_the_bytes_count_whatever_the_content_type_says(running, content_type):
    running()
    body = json.dumps({**DONE, "name": "₹ മലയാളം"}, ensure_ascii=False).encode()
    assert result(send(body, content_type=content_type)) == ("accepted", None)
    assert bytes(InboundEvent.objects.get().body) == body


def test_a_byte_order_mark_is_signed_with_the_body_and_read_over(running):
    running()
    body = b"\xef\xbb\xbf" + json.dumps(DONE).encode()
    assert result(send(body)) == ("accepted", None)
    assert bytes(InboundEvent.objects.get().body) == body


@pytest.mark.parametrize("name", ["utf-16", "utf-16-le", "utf-32-be"])
def test_another_encoding_is_named_to_the_sender_and_on_the_row(running, name):
    running()
    answer = send(json.dumps(DONE).encode(name))
    assert (answer.status_code, answer.json()["reason"]) == (400, "not_parseable")
    words = f"it is {name[:6].upper()}; send it as UTF-8"
    assert words in answer.json()["detail"]
    assert words in InboundEvent.objects.get().verdict_detail


@pytest.mark.parametrize("encoding", ["gzip", "br", "utf-8", "aws-chunked", "gzip, gzip", "x" * 300])
def test_a_proxy_that_unpacked_the_body_and_left_the_header_loses_no_event(running, encoding):
    running()
    assert result(send(json.dumps(DONE).encode(), content_encoding=encoding)) == ("accepted", None)
    Task.objects.update(state=State.RUNNING)
    event, results = inbox.replay(InboundEvent.objects.get().pk, actor="op", reason="by the stored body")
    assert (event.verdict, [row["job_id"] for row in results]) == ("verified", ["j1"])


def test_deflate_with_and_without_its_wrapping_is_read(running):
    running()
    bare = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    body = json.dumps(DONE).encode()
    assert result(send(bare.compress(body) + bare.flush(), content_encoding="deflate")) == ("accepted", None)


def test_what_follows_the_packed_body_is_not_cut_off_in_silence(running):
    running()
    half = len(json.dumps(DONE)) // 2
    body = json.dumps(DONE).encode()
    parts = gzip.compress(body[:half]) + gzip.compress(body[half:])
    assert send(parts, content_encoding="gzip").status_code == 400
    event = InboundEvent.objects.get()
    assert (event.verdict, bytes(event.body)) == (InboundVerdict.UNPARSEABLE, parts)


def test_a_body_over_the_frameworks_own_limit_is_taken(running):
    running()
    assert result(send(json.dumps({**DONE, "logs": "x" * 3_000_000}).encode())) == ("accepted", None)


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "x" * 20_000},
        {"x_forwarded_client_cert": "x" * 20_000, "cookie": "y" * 20_000},
        {"x_correlation_id": "\x00\ud800" * 50},
        {"x_forwarded_for": "junk, , \x00" * 50},
        {"user_agent": "\ud800\x00\x7f"},
        {"authorization": "Bearer " + "x" * 20_000},
        {"svix_id": "other", "svix_signature": "v1,AAAA"},
    ],
)
def test_headers_that_are_none_of_the_signatures_change_nothing(running, headers):
    running()
    assert result(send(json.dumps(DONE).encode(), **headers)) == ("accepted", None)


@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")])
def test_signatures_on_two_header_lines_are_both_looked_at(running, order):
    """As a server hands the lines over, and Django joins them."""
    running()
    now = timezone.now()
    body = json.dumps(DONE)
    lines = {"good": Webhook(SECRET).sign("msg_1", now, body), "bad": "v1," + "A" * 43 + "="}
    headers = [(b"webhook-id", b"msg_1"), (b"webhook-timestamp", str(int(now.timestamp())).encode())]
    headers += [(b"webhook-signature", lines[which].encode()) for which in order]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/webhooks/sandbox/",
        "query_string": b"",
        "headers": [*headers, (b"content-length", str(len(body)).encode())],
    }
    answer = views.receive(ASGIRequest(scope, BytesIO(body.encode())), "sandbox")
    assert json.loads(answer.content)["status"] == "accepted"


HOSTILE_ENTRIES = [
    None,
    7,
    "j1",
    [],
    {},
    {"job_id": None, "status": "completed"},
    {"job_id": "", "status": "completed"},
    {"job_id": "a\x00b", "status": "completed"},
    {"job_id": "x" * 201, "status": "completed"},
    {"job_id": {"$ne": 1}, "status": "completed"},
    {"job_id": True, "status": "completed"},
    {"job_id": 10**400, "status": "completed"},
    {"job_id": "j1", "status": None},
    {"job_id": "j1", "status": ["completed"]},
    {"job_id": "j1", "status": "\x00" * 100},
    {"job_id": "j1", "status": "s" * 10_000},
    {"job_id": "j1", "status": "processing", "progress": 10**400},
    {"job_id": "j1", "status": "processing", "progress": "forty"},
    {"job_id": "j1", "status": "processing", "error": {"code": {}, "message": ["\x00"]}},
    {"job_id": "j1", "status": "processing", "finished_at": "9999-99-99T99:99:99Z"},
    {"job_id": "j1", "status": "processing", "finished_at": 1e300},
]


@pytest.mark.parametrize("entry", HOSTILE_ENTRIES, ids=range(len(HOSTILE_ENTRIES)))
def test_a_hostile_entry_alone_and_among_others_breaks_nothing(running, post, entry):
    running("j1"), running("good")
    good = {"job_id": "good", "status": "completed"}
    for place in (0, 1):
        jobs = [good]
        jobs.insert(place, entry)
        answer = post({"jobs": jobs})
        assert (answer.status_code, len(answer.json()["results"])) == (200, 2)
        assert answer.json()["results"][1 - place]["job_id"] == "good"
    assert Task.objects.filter(state=State.FETCHING).count() == 1
    assert post({"jobs": [entry]}).status_code in {200, 400}
    assert post(json.dumps(entry).encode()).status_code in {200, 400}
    assert not InboundEvent.objects.filter(outcome="", verdict=InboundVerdict.VERIFIED).exists()


UPDATE = ProviderUpdate("j1", status=JobStatus.RUNNING, raw_status="processing", progress=5)
CARELESS = [
    (replace(UPDATE, job_id="a\x00b"), "unreadable_entry"),
    (replace(UPDATE, job_id="\ud800"), "unreadable_entry"),
    (replace(UPDATE, job_id="x" * 201), "unreadable_entry"),
    (replace(UPDATE, item_key="k\x00"), "unreadable_entry"),
    (replace(UPDATE, raw_status="p\x00", error_text="e\ud800", error_code="\x00"), None),
    (ProviderUpdate("", problem="it holds \x00"), "unreadable_entry"),
]


@pytest.mark.parametrize(("update", "reason"), CARELESS, ids=range(len(CARELESS)))
def test_an_adapter_that_lets_hostile_text_through_breaks_no_other_entry(running, post, monkeypatch, update, reason):
    running("j1"), running("good")
    good = ProviderUpdate("good", status=JobStatus.SUCCEEDED, raw_status="completed")
    monkeypatch.setattr(SandboxProvider, "parse", lambda *_: ParsedCallback((update, good)))
    first, second = post(DONE).json()["results"]
    assert (first.get("reason"), second["status"]) == (reason, "accepted")
    assert Task.objects.get(jobs__job_id="good").state == State.FETCHING


@pytest.mark.parametrize("said", [None, 7, ParsedCallback((None,)), ParsedCallback(None), ParsedCallback(("j1",))])
def test_an_adapter_that_answers_nonsense_is_not_parseable(running, post, monkeypatch, said):
    running()
    monkeypatch.setattr(SandboxProvider, "parse", lambda *_: said)
    answer = post(DONE)
    assert (answer.status_code, answer.json()["reason"]) == (400, "not_parseable")
    assert InboundEvent.objects.get().verdict == InboundVerdict.UNPARSEABLE


def test_the_same_event_again_and_again_is_one_row(post, running):
    running()
    at = timezone.now()
    answers = [result(post(DONE, event_id="msg_1", at=at + timedelta(seconds=number))) for number in range(46)]
    assert answers == [("accepted", None), *[("ignored", "duplicate_event")] * 45]
    assert InboundEvent.objects.get().duplicate_count == 45
