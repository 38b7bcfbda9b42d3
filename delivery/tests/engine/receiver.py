"""A small real HTTP receiver for the engine's tests: answers by path and keeps a journal."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Seen:
    path: str
    method: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Receiver:
    """`answers` maps a path to (status, headers, body, seconds to wait); unknown paths answer 200."""

    url: str
    seen: list[Seen] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, str], bytes, float]] = field(default_factory=dict)
    in_air: int = 0
    most_in_air: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(
        self, path: str, status: int, headers: dict[str, str] | None = None, body: bytes = b"", wait: float = 0
    ) -> str:
        self.answers[path] = (status, headers or {}, body, wait)
        return self.url + path

    def ids(self) -> list[str]:
        return [seen.headers["webhook-id"] for seen in self.seen]


@contextmanager
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            with standing.lock:
                standing.in_air += 1
                standing.most_in_air = max(standing.most_in_air, standing.in_air)
                headers = {name.lower(): value for name, value in self.headers.items()}
                standing.seen.append(Seen(self.path, self.command, headers, body, time.time()))
            status, extra, answer, wait = standing.answers.get(self.path, (200, {}, b"ok", 0))
            if wait:
                time.sleep(wait)
            with standing.lock:
                standing.in_air -= 1
            self.send_response(status)
            for name, value in extra.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = _handle

        def setup(self) -> None:
            super().setup()
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def log_message(self, *_args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    standing = Receiver(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield standing
    finally:
        server.shutdown()
        server.server_close()
