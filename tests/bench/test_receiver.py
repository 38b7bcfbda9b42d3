"""The benches' receiver answers, keeps what came, and tells a good signature from a bad one."""

import http.client
import socket
import time

import pytest

from bench.harness.receiving import Receiver, receiver
from sandbox.signing import secret_bytes, sign

SECRET = "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"
BODY = b'{"n": 1}'


@pytest.fixture(scope="module")
def running():
    with receiver() as started:
        yield started


@pytest.fixture
def clean(running: Receiver) -> Receiver:
    running.reset()
    return running


def post(to: Receiver, path: str, name: str, body: bytes = BODY, signed: bytes = BODY) -> int:
    signature = sign(secret_bytes(SECRET), name.encode(), b"1700000000", signed).decode()
    headers = {"Webhook-Id": name, "webhook-timestamp": "1700000000", "webhook-signature": signature}
    connection = http.client.HTTPConnection("127.0.0.1", to.port, timeout=10)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_ids_are_counted_once_and_signatures_judged(clean):
    for name in ("one", "two", "two"):
        assert post(clean, "/ok/3", name) == 200
    post(clean, "/ok/3", "three", body=b"tampered")
    post(clean, "/ok/4", "four")  # nobody has said what its secret is
    assert clean.check({"/ok/3": SECRET}) == {"requests": 5, "distinct": 4, "distinct_bodies": 2, "valid": 3}
    assert {name: len(moments) for name, moments in clean.arrivals().items()}["two"] == 2


def test_without_raw_requests_ids_and_times_remain(clean):
    clean.reset(keep_raw=False)
    before = time.monotonic()
    post(clean, "/ok/1", "one")
    (at,) = clean.arrivals()["one"]
    assert before <= at <= time.monotonic()
    assert clean.check({})["distinct"] == 1


def test_a_slow_path_answers_late_and_others_meanwhile(clean):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", clean.port), timeout=10) as waiting:
        waiting.sendall(b"POST /slow/1000/1 HTTP/1.1\r\nhost: x\r\nwebhook-id: s\r\ncontent-length: 0\r\n\r\n")
        assert post(clean, "/ok/1", "quick") == 200
        waiting.setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting.recv(100)
        waiting.settimeout(10)
        assert waiting.recv(100).startswith(b"HTTP/1.1 200")
    assert time.monotonic() - began >= 0.999


def test_a_request_in_pieces_is_one_request(clean):
    raw = b"POST /ok/1 HTTP/1.1\r\nhost: x\r\nwebhook-id: p\r\ncontent-length: 5\r\n\r\nhello"
    with socket.create_connection(("127.0.0.1", clean.port), timeout=10) as client:
        for piece in (raw[:20], raw[20:70], raw[70:]):
            client.sendall(piece)
            time.sleep(0.02)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        client.sendall(raw + raw)  # and two at once are two
        time.sleep(0.05)
    assert clean.count() == 3


def test_a_hanging_path_never_answers_and_is_counted(clean):
    with socket.create_connection(("127.0.0.1", clean.port), timeout=0.2) as client:
        client.sendall(b"POST /hang/1 HTTP/1.1\r\nhost: x\r\nwebhook-id: h\r\ncontent-length: 0\r\n\r\n")
        with pytest.raises(TimeoutError):
            client.recv(1)
    assert clean.count() == 1
