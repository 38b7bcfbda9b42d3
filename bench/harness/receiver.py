"""A receiver that costs next to nothing: one process, one epoll loop, every request kept raw and judged after the run.

The paths: `/ok/…` answers at once, `/slow/<ms>/…` after so many milliseconds, `/hang/…` never, `/limit/<ms>/…` lets
one pass in so many milliseconds and answers 429 with `Retry-After: 2` to others, which it forgets. `/_…` is for the
bench: `receiving.Receiver` speaks it. Signatures are checked by the sandbox's own implementation, not by the product's.

It must never parse, verify or log while a run is on: it would become the limit of what it measures.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable

from sandbox.signing import secret_bytes, verify

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
SLOW_DOWN = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n"
CHUNK = 16 * 1024
BACKLOG = 4096
HANG = -1.0

_length = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE).search
_id = re.compile(rb"\r\nwebhook-id: *([^\r]+)", re.IGNORECASE).search
_timestamp = re.compile(rb"\r\nwebhook-timestamp: *([^\r]+)", re.IGNORECASE).search
_signature = re.compile(rb"\r\nwebhook-signature: *([^\r]+)", re.IGNORECASE).search


class Journal:
    """Requests as they came, beside the moment of each one's first byte (CLOCK_MONOTONIC, one clock for all)."""

    def __init__(self) -> None:
        self.reset(keep_raw=True)

    def reset(self, *, keep_raw: bool) -> None:
        self.keep_raw = keep_raw
        self.at: list[float] = []
        self.requests: list[bytes] = []  # whole, or only the webhook-id

    def add(self, at: float, request: bytes) -> None:
        self.at.append(at)
        self.requests.append(request if self.keep_raw else id_of(request))

    def ids(self) -> list[bytes]:
        return [id_of(request) for request in self.requests] if self.keep_raw else self.requests

    def arrivals(self) -> dict[str, list[float]]:
        """Every webhook-id with the moments at which it came."""
        found: dict[str, list[float]] = {}
        for name, at in zip(self.ids(), self.at, strict=True):
            found.setdefault(name.decode("latin-1"), []).append(at)
        return found

    def check(self, secrets: dict[str, str]) -> dict[str, int]:
        """How many requests, distinct ids, distinct bodies, and requests that one of the secrets of the path signed."""
        keys = {path.encode(): secret_bytes(secret) for path, secret in secrets.items()}
        valid = sum(is_signed(request, keys) for request in self.requests) if self.keep_raw else 0
        bodies = {body_of(request) for request in self.requests} if self.keep_raw else ()
        return {
            "requests": len(self.requests),
            "distinct": len(set(self.ids())),
            "distinct_bodies": len(bodies),
            "valid": valid,
        }


def id_of(request: bytes) -> bytes:
    found = _id(request)
    return found[1] if found else b""


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


def is_signed(request: bytes, keys: dict[bytes, bytes]) -> bool:
    """Whether the secret of its path signed this request, near the time that it says."""
    path = request.split(b" ", 2)[1]
    name, timestamp, signatures = _id(request), _timestamp(request), _signature(request)
    if path not in keys or not (name and timestamp and signatures):
        return False
    said = int(timestamp[1])  # that the clock was right is checked elsewhere; here only the bytes are judged
    return verify((keys[path],), name[1], timestamp[1], signatures[1], body_of(request), said)


def route(target: bytes) -> float:
    """Seconds until the answer: 0 is at once, HANG is never."""
    words = target.split(b"/")
    if words[1] == b"slow":
        return int(words[2]) / 1000
    return HANG if words[1] == b"hang" else 0.0


class Server:
    """The loop. Only whole requests are answered; what a sender does in pieces is put together first."""

    def __init__(self, listener: socket.socket) -> None:
        self.journal = Journal()
        self._listener = listener
        self._poll = select.epoll()
        self._poll.register(listener.fileno(), select.EPOLLIN)
        self._sockets: dict[int, socket.socket] = {}
        self._partial: dict[int, tuple[float, bytes]] = {}
        self._delays: dict[bytes, float] = {}
        self._gaps: dict[bytes, float] = {}
        self._passed: dict[bytes, float] = {}
        self._late: dict[float, deque[tuple[float, int, socket.socket]]] = {}

    def run(self) -> None:
        listening = self._listener.fileno()
        while True:
            for number, _ in self._poll.poll(self._patience(), 512):
                if number == listening:
                    self._accept()
                else:
                    self._read(number)
            if self._late:
                self._answer_late()

    def _accept(self) -> None:
        for _ in range(64):
            try:
                client, _address = self._listener.accept()
            except BlockingIOError:
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[client.fileno()] = client
            self._poll.register(client.fileno(), select.EPOLLIN)

    def _read(self, number: int) -> None:
        client = self._sockets[number]
        at = time.monotonic()
        try:
            data = client.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(number)
            return
        if number in self._partial:
            at, before = self._partial.pop(number)
            data = before + data
        while data:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                break
            length = _length(data, 0, end + 2)
            total = end + 4 + (int(length[1]) if length else 0)
            if len(data) < total:
                break
            request, data = (data, b"") if len(data) == total else (data[:total], data[total:])
            self._serve(number, client, at, request)
        if data:
            self._partial[number] = at, data

    def _serve(self, number: int, client: socket.socket, at: float, request: bytes) -> None:
        target = request[request.find(b" ") + 1 : request.find(b" HTTP/")]
        delay = self._delays.get(target)
        if delay is None:
            if target.startswith(b"/_"):
                _send(client, self._control(target, body_of(request)))
                return
            delay = self._delays[target] = route(target)
            if target.startswith(b"/limit/"):
                self._gaps[target] = int(target.split(b"/")[2]) / 1000
        if target in self._gaps and not self._lets_pass(target, at):
            _send(client, SLOW_DOWN)
            return
        self.journal.add(at, request)
        if not delay:
            _send(client, ANSWER)
        elif delay > 0:
            self._late.setdefault(delay, deque()).append((time.monotonic() + delay, number, client))

    def _lets_pass(self, target: bytes, at: float) -> bool:
        passes = at >= self._passed.get(target, 0.0) + self._gaps[target]
        if passes:
            self._passed[target] = at
        return passes

    def _drop(self, number: int) -> None:
        self._poll.unregister(number)
        self._partial.pop(number, None)
        self._sockets.pop(number).close()

    # --- answers that come late -------------------------------------------------------------------------------------

    def _patience(self) -> float | None:
        firsts = [queue[0][0] for queue in self._late.values() if queue]
        return max(0.0, min(firsts) - time.monotonic()) if firsts else None

    def _answer_late(self) -> None:
        now = time.monotonic() + 0.0005
        for queue in self._late.values():
            while queue and queue[0][0] <= now:
                _, number, client = queue.popleft()
                if self._sockets.get(number) is client:
                    _send(client, ANSWER)

    # --- for the bench ----------------------------------------------------------------------------------------------

    def _control(self, target: bytes, body: bytes) -> bytes:
        verbs: dict[bytes, Callable[[], object]] = {
            b"/_reset": lambda: self.journal.reset(keep_raw=True),
            b"/_reset/ids": lambda: self.journal.reset(keep_raw=False),
            b"/_count": lambda: len(self.journal.requests),
            b"/_check": lambda: self.journal.check(json.loads(body)),
            b"/_arrivals": self.journal.arrivals,
            b"/_span": lambda: [self.journal.at[0], self.journal.at[-1]] if self.journal.at else [0.0, 0.0],
        }
        document = json.dumps(verbs[target]()).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(document) + document


def _send(client: socket.socket, data: bytes) -> None:
    try:
        sent = client.send(data)
        if sent < len(data):  # only the bench's own long answers
            client.setblocking(True)
            client.sendall(data[sent:])
            client.setblocking(False)
    except OSError:
        pass  # the sender is gone; the epoll says so next


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.harness.receiver", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    listener.setblocking(False)
    gc.disable()  # nothing here makes circles, and a hundred thousand requests are kept on purpose
    Server(listener).run()


if __name__ == "__main__":
    main()
