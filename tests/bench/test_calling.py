"""What the benches of the web side send is counted as it was answered."""

import asyncio
import threading

import pytest

from bench.harness import calling
from sandbox.signing import verify

ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbus\r\n1\r\ny\r\n0\r\n\r\n",
]


def _with_server(act):
    """What `act` makes of the port of a server that gives these answers in turn."""
    heard, ready, loop = [], threading.Event(), asyncio.new_event_loop()

    async def take(reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return writer.close()
            length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
            heard.append((head, await reader.readexactly(int(length[16:]))))
            writer.write(ANSWERS[(len(heard) - 1) % 2])

    async def serve():
        server = await asyncio.start_server(take, "127.0.0.1", 0)
        heard_at.append(server.sockets[0].getsockname()[1])
        ready.set()

    heard_at = []
    thread = threading.Thread(target=lambda: (loop.create_task(serve()), loop.run_forever()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        return heard, act(heard_at[0])
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def test_each_request_is_answered_once_and_counted_by_its_status():
    one = calling.request("POST", "/x", b"body")
    heard, sent = _with_server(lambda port: calling.send(port, [one] * 6, 1))
    assert len(heard) == 6 and dict(sent.statuses) == {200: 3, 503: 3} and len(sent.waits_ms) == 6
    assert sent.last == b"busy"
    with pytest.raises(RuntimeError, match="503"):
        sent.expect(200)


def test_a_webhook_is_signed():
    key = b"k" * 24
    heard, _ = _with_server(lambda port: calling.send(port, [calling.webhook("/x", key, {"job_id": "j"})]))
    head, body = heard[0]
    said = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    name, at, signature = (said[b"webhook-" + part] for part in (b"id", b"timestamp", b"signature"))
    assert verify((key,), name, at, signature, body, float(at))
