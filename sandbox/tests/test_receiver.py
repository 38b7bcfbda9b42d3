"""The receiver's behaviours, over sockets, and its journal."""

from __future__ import annotations

import base64
import socket
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from standardwebhooks import Webhook

from sandbox.receiver.journal import Journal
from sandbox.tests.conftest import Running

CUSTOMER = "whsec_" + base64.b64encode(b"customer-secret-customer-secret0").decode()
NEXT = "whsec_" + base64.b64encode(b"the-next-secret-the-next-secret0").decode()


def signed(secret: str, body: str, webhook_id: str = "evt_1", at: float | None = None) -> dict[str, str]:
    moment = datetime.fromtimestamp(at or time.time(), UTC)
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign(webhook_id, moment, body),
    }


def post(sandbox: Running, path: str, body: str = "{}", **more: Any) -> requests.Response:
    return requests.post(sandbox.receiver + path, data=body.encode(), timeout=5, allow_redirects=False, **more)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/ok", 200, '{"ok":true}'),
        ("/ok/customer-a", 200, '{"ok":true}'),
        ("/slow/30", 200, '{"ok":true}'),
        ("/status/410/customer-a", 410, '{"status":410}'),
        ("/status/204", 204, ""),
        ("/flaky/0", 200, '{"ok":true}'),
        ("/flaky/100/x", 500, '{"error":"flaky"}'),
        ("/body/duplicate", 200, "duplicate"),
        ("/body/invalid%20click/x", 200, "invalid click"),
        ("/retry-after/7", 429, '{"error":"too many"}'),
        ("/redirect/x", 302, ""),
        ("/status/99", 404, '{"error":"the path needs a status code, 200 to 599"}'),
    ],
)
def test_a_path_says_how_it_answers(sandbox: Running, path: str, status: int, text: str) -> None:
    answer = post(sandbox, path)
    assert (answer.status_code, answer.text) == (status, text)
    (entry,) = sandbox.journal()
    assert (entry["method"], entry["path"], entry["status"]) == ("POST", path, status)


def test_headers_of_refusals(sandbox: Running) -> None:
    assert post(sandbox, "/retry-after/7").headers["retry-after"] == "7"
    assert post(sandbox, "/redirect/x").headers["location"] == "/ok/x"


def test_a_get_postback_keeps_its_parameters(sandbox: Running) -> None:
    answer = requests.get(f"{sandbox.receiver}/ok/aff", params={"city": "Łódź & Co", "click": "a+b"}, timeout=5)
    assert answer.status_code == 200
    (entry,) = sandbox.journal()
    assert (entry["method"], entry["query"]) == ("GET", "city=%C5%81%C3%B3d%C5%BA+%26+Co&click=a%2Bb")
    assert entry["signature"] == "missing"


def test_close_leaves_without_a_word_but_not_without_a_trace(sandbox: Running) -> None:
    with pytest.raises(requests.ConnectionError):
        post(sandbox, "/close")
    (entry,) = sandbox.journal()
    assert entry["status"] is None


def test_drip_goes_on_byte_by_byte(sandbox: Running) -> None:
    with requests.post(f"{sandbox.receiver}/drip/10", stream=True, timeout=5) as answer:
        assert answer.status_code == 200
        assert answer.raw.read(5) == b"....."


def test_huge_pours_until_the_client_leaves(sandbox: Running) -> None:
    with requests.post(f"{sandbox.receiver}/huge", stream=True, timeout=5) as answer:
        assert int(answer.headers["content-length"]) == 1024**3
        assert len(answer.raw.read(4 * 1024**2)) == 4 * 1024**2
    assert post(sandbox, "/ok").status_code == 200


def test_the_bomb_unpacks_to_half_a_gigabyte(sandbox: Running) -> None:
    with requests.post(f"{sandbox.receiver}/gzipbomb", stream=True, timeout=20) as answer:
        assert int(answer.headers["content-length"]) < 1024**2
        assert sum(len(chunk) for chunk in answer.iter_content(1024**2)) == 512 * 1024**2


def test_signatures_are_judged_where_the_secret_is_known(sandbox: Running) -> None:
    body = '{"type":"task.succeeded","data":{"name":"Łódź"}}'
    post(sandbox, "/ok/a", body, headers=signed(CUSTOMER, body))
    requests.post(f"{sandbox.receiver}/_secrets", json={"path": "/ok/a", "secret": CUSTOMER}, timeout=5)
    post(sandbox, "/ok/a/deeper", body, headers=signed(CUSTOMER, body))
    post(sandbox, "/ok/a", body + " ", headers=signed(CUSTOMER, body))
    post(sandbox, "/ok/a", body, headers=signed(NEXT, body))
    post(sandbox, "/ok/a", body, headers=signed(CUSTOMER, body, at=time.time() - 400))
    post(sandbox, "/ok/a", body)
    post(sandbox, "/ok/ab", body, headers=signed(CUSTOMER, body))
    verdicts = [entry["signature"] for entry in sandbox.journal()]
    assert verdicts == ["unknown", "valid", "invalid", "invalid", "invalid", "missing", "unknown"]
    assert sandbox.journal()[0]["type"] == "task.succeeded"


def test_two_secrets_hold_during_a_rotation(sandbox: Running) -> None:
    url = f"{sandbox.receiver}/_secrets"
    requests.post(url, json={"path": "/ok/a", "secret": CUSTOMER}, timeout=5)
    shown = requests.post(url, json={"path": "/ok/a", "secret": NEXT, "keep": True}, timeout=5).json()
    assert shown == {"paths": {"/ok/a": 2}}  # the secrets themselves are not shown
    for secret in (CUSTOMER, NEXT):
        post(sandbox, "/ok/a", headers=signed(secret, "{}"))
    requests.post(url, json={"path": "/ok/a", "secret": NEXT}, timeout=5)
    post(sandbox, "/ok/a", headers=signed(CUSTOMER, "{}"))
    assert [entry["signature"] for entry in sandbox.journal()] == ["valid", "valid", "invalid"]


@pytest.mark.parametrize("wrong", [{}, {"path": "ok", "secret": CUSTOMER}, {"path": "/ok", "secret": "hunter2"}, []])
def test_a_wrong_secret_is_refused(sandbox: Running, wrong: object) -> None:
    answer = requests.post(f"{sandbox.receiver}/_secrets", json=wrong, timeout=5)
    assert answer.status_code == 422


def test_a_receiver_is_healed(sandbox: Running) -> None:
    url = f"{sandbox.receiver}/_behaviour"
    assert post(sandbox, "/status/500/x").status_code == 500
    requests.post(url, json={"path": "/status/500/x", "as": "/ok"}, timeout=5)
    assert post(sandbox, "/status/500/x").status_code == 200
    assert post(sandbox, "/status/500/y").status_code == 500
    requests.delete(url, params={"path": "/status/500/x"}, timeout=5)
    assert post(sandbox, "/status/500/x").status_code == 500
    assert [entry["path"] for entry in sandbox.journal(path="/status/500/x")] == ["/status/500/x"] * 3


def test_the_journal_is_filtered_paged_and_summed_up(sandbox: Running) -> None:
    for number in range(4):
        body = '{"type":"task.succeeded"}' if number % 2 else '{"type":"batch.completed"}'
        post(sandbox, "/ok/a", body, headers=signed(CUSTOMER, body, f"evt_{number}"))
    post(sandbox, "/ok/a", headers=signed(CUSTOMER, "{}", "evt_0"))
    post(sandbox, "/status/500/b", headers=signed(CUSTOMER, "{}", "evt_9"))
    entries = sandbox.journal()
    assert [e["webhook_id"] for e in sandbox.journal(path="/ok")] == ["evt_0", "evt_1", "evt_2", "evt_3", "evt_0"]
    assert [e["n"] for e in sandbox.journal(limit=2, offset=1)] == [2, 3]
    assert [e["n"] for e in sandbox.journal(limit=2, order="desc")] == [6, 5]
    assert [e["n"] for e in sandbox.journal(after=4)] == [5, 6]
    assert [e["n"] for e in sandbox.journal(webhook_id="evt_0")] == [1, 5]
    assert [e["n"] for e in sandbox.journal(type="task.succeeded")] == [2, 4]
    assert [e["n"] for e in sandbox.journal(since=entries[4]["at"])] == [5, 6]
    summary = requests.get(f"{sandbox.receiver}/_journal/summary", timeout=5).json()
    assert (summary["requests"], summary["distinct_webhook_ids"]) == (6, 5)
    assert summary["distinct_accepted_webhook_ids"] == 4
    assert summary["paths"]["/ok/a"]["requests"] == 5
    assert summary["paths"]["/status/500/b"]["statuses"] == {"500": 1}
    assert summary["types"]["task.succeeded"]["distinct_webhook_ids"] == 2
    requests.delete(f"{sandbox.receiver}/_journal", timeout=5)
    assert sandbox.journal() == []


def test_the_journal_is_bounded_twice() -> None:
    journal = Journal(max_entries=100, max_bytes=10_000)
    for number in range(150):
        journal.add(float(number), b"POST", "/ok", "", [(b"x-a", b"1")], b"x" * 500, b"id-%d" % number, 200, "valid")
    page = journal.page(limit=1000, offset=0, newest_first=False)
    assert (page["count"], page["total"]) == (100, 150)
    assert page["entries"][0]["n"] == 51
    assert page["entries"][0]["body"] is None  # made room
    assert page["entries"][0]["webhook_id"] == "id-50"
    assert page["entries"][-1]["body"] == "x" * 500
    assert page["entries"][-1]["headers"] == {"x-a": "1"}
    assert journal.summary()["truncated"] is True


def test_requests_in_one_go_are_answered_in_order(sandbox: Running) -> None:
    place = urlsplit(sandbox.receiver)
    with socket.create_connection((place.hostname, place.port), 5) as wire:
        wire.sendall(
            b"POST /slow/100 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
            b"GET /body/second HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        received = b""
        while chunk := wire.recv(4096):
            received += chunk
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.endswith(b"second")


def test_junk_gets_a_400_and_head_gets_no_body(sandbox: Running) -> None:
    place = urlsplit(sandbox.receiver)
    with socket.create_connection((place.hostname, place.port), 5) as wire:
        wire.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert wire.recv(100).startswith(b"HTTP/1.1 400 ")
    answer = requests.head(f"{sandbox.receiver}/body/hello", timeout=5)
    assert (answer.headers["content-length"], answer.content) == ("5", b"")
