"""The server we ship reads no head without end, and keeps no socket that says nothing, drips or does not read."""

import contextlib
import socket
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from websockets.sync.client import connect

from config.connections import Connections, most_by_files
from config.server import BoundedProtocol
from config.tests.served import exchange, served
from kernel.network.addresses import parse_networks

ROOT = Path(__file__).resolve().parents[2]
LIVENESS_SECONDS = 60
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\n"
REFUSED = {431, None}  # what is closed while bytes are on their way may lose its answer to the reset


class Hasty(BoundedProtocol):
    HEAD_SECONDS = 0.5
    BODY_SECONDS = 0.5
    STALL_SECONDS = 0.5


async def application(scope, receive, send):
    """Echoes a websocket. Tells how many bytes a body had; `/large` answers with more than socket buffers hold."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message["body"]), message["more_body"]
    answer = b"x" * 50_000_000 if scope["path"] == "/large" else str(length).encode()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture(scope="module")
def address():
    with served(application, http=BoundedProtocol) as address:
        yield address


@pytest.fixture(scope="module")
def hasty():
    with served(application, http=Hasty, timeout_keep_alive=60) as address:
        yield address


def get(*headers, path="/"):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]).encode()


def status_of(answer):
    return int(answer.split()[1]) if answer else None


def drip(address, head, piece):
    """What the server says while a piece comes every twentieth of a second; it ends when the server closes."""
    said = b""
    give_up = time.monotonic() + LIVENESS_SECONDS
    with socket.create_connection(address, timeout=0.05) as line:
        line.sendall(head)
        while time.monotonic() < give_up:
            try:
                got = line.recv(65536)
                if not got:
                    return said
                said += got
            except TimeoutError:
                pass
            except ConnectionError:
                return said
            try:
                line.sendall(piece)
            except OSError:
                return said
    raise AssertionError("the socket is still open")


def test_an_ordinary_request_is_answered(address):
    assert status_of(exchange(address, get("X-A: " + "x" * 8000))) == 200


def test_too_many_fields_are_refused_with_a_word(address):
    assert status_of(exchange(address, get(*(f"X-{number}: x" for number in range(200))))) == 431


@pytest.mark.parametrize(
    "raw",
    [
        get("X-A: " + "x" * 70_000),
        get(*(f"X-{number}: {'x' * 7000}" for number in range(12))),
        get(path="/" + "x" * 70_000),
        CHUNKED + b"".join(b"X-%d: x\r\n" % number for number in range(200)),
    ],
    ids=["one long field", "long together", "a long address", "trailers"],
)
def test_too_much_head_is_refused(address, raw):
    assert status_of(exchange(address, raw)) in REFUSED


@pytest.mark.parametrize("head", [get()[:-2] + b"X-A: ", CHUNKED + b"X-A: "], ids=["field", "trailer"])
def test_a_field_without_end_is_refused_before_its_end(address, head):
    assert status_of(drip(address, head, b"x" * 20_000)) in REFUSED


def test_large_bodies_and_several_requests_on_one_line_are_read(address):
    body = b"x" * 3_000_000
    first = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = exchange(address, first + body + get())
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"3000000" in answer


@pytest.mark.parametrize(
    ("head", "piece", "status"),
    [
        (b"", b"", 408),
        (b"GET / HT", b"", 408),
        (b"", b"\r\n", 408),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"x", 408),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", b"x", 408),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 408),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n", 200),
    ],
    ids=["nothing", "half a line", "empty lines", "a head", "a body", "chunks", "empty lines afterwards"],
)
def test_what_comes_too_slowly_is_ended(hasty, head, piece, status):
    assert status_of(drip(hasty, head, piece)) == status


def test_a_reader_who_does_not_read_is_ended(hasty):
    with socket.create_connection(hasty, timeout=LIVENESS_SECONDS) as line:
        line.sendall(get(path="/large"))
        time.sleep(3)  # the server has time to notice; only then do we read
        got = 0
        try:
            while piece := line.recv(1 << 20):
                got += len(piece)
        except ConnectionError:
            pass
    assert got < 50_000_000


def test_a_quiet_websocket_stays_open(hasty):
    with connect(f"ws://{hasty[0]}:{hasty[1]}/") as line:
        time.sleep(2)  # longer than a head may take
        line.send("still there?")
        assert line.recv(timeout=LIVENESS_SECONDS) == "still there?"


@pytest.mark.parametrize(
    "where", ["deploy/Procfile", "deploy/systemd/roundtrip-web.service", "bin/roundtrip_up/process_table.py"]
)
def test_every_way_to_start_the_web_uses_it(where):
    assert "config.server:BoundedProtocol" in (ROOT / where).read_text()


class Crowded(BoundedProtocol):
    CONNECTIONS = Connections(most=6, most_of_address=3)


def wait_until_kept(count):
    give_up = time.monotonic() + LIVENESS_SECONDS
    while Crowded.CONNECTIONS._count != count:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_one_address_has_so_many_connections_and_another_is_let_in():
    with served(application, http=Crowded) as address, contextlib.ExitStack() as open_lines:
        for _ in range(3):
            open_lines.enter_context(socket.create_connection(address))
        wait_until_kept(3)
        assert exchange(address, get()).startswith(b"HTTP/1.1 503 ")
        with socket.create_connection(address, source_address=("127.0.0.2", 0), timeout=60) as other:
            other.sendall(get())
            assert other.recv(65536).startswith(b"HTTP/1.1 200 ")
        open_lines.close()
        wait_until_kept(0)
        assert status_of(exchange(address, get())) == 200


def test_a_trusted_proxy_may_bring_everybody_up_to_what_the_process_holds(settings):
    settings.TRUSTED_PROXIES = list(parse_networks(["127.0.0.1/32"]))
    with served(application, http=Crowded) as address, contextlib.ExitStack() as open_lines:
        for _ in range(6):
            open_lines.enter_context(socket.create_connection(address))
        wait_until_kept(6)
        assert exchange(address, get()).startswith(b"HTTP/1.1 503 ")


def test_what_is_refused_is_logged_once_a_minute():
    kept = Connections(most=1)
    with capture_logs() as lines:
        assert [kept.come("192.0.2.7") for _ in range(5)] == [True, False, False, False, False]
    assert [line["event"] for line in lines] == ["too_many_connections"]
    for _ in range(5):
        kept.go("192.0.2.7")
    assert kept.come("192.0.2.7")


@pytest.mark.parametrize(("files", "most"), [(1_024, 824), (100, 1), (1_000_000, 4_000), (-1, 4_000)])
def test_there_are_never_more_than_the_process_may_open_files(monkeypatch, files, most):
    monkeypatch.setattr("config.connections.resource.getrlimit", lambda _which: (files, files))
    assert most_by_files() == most


def test_a_websocket_is_no_longer_counted_here():
    with served(application, http=Crowded) as address:
        for _ in range(8):
            with connect(f"ws://{address[0]}:{address[1]}/") as line:
                line.send("a")
                assert line.recv() == "a"
                assert Crowded.CONNECTIONS._count == 0
        assert status_of(exchange(address, get())) == 200
        wait_until_kept(0)
