"""A TCP proxy in front of PostgreSQL that cuts one connection at its COMMIT, before or after the server has done it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"  # psycopg sends it as a simple query


class CuttingProxy:
    """Passes everything on; after `arm(...)` the next COMMIT is the last thing that its connection sees."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._armed = ""
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, when: str) -> None:
        """`before`: the server never hears of the COMMIT; `after`: it commits, and the answer is lost."""
        self._armed = when

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            deaf = threading.Event()
            threading.Thread(target=self._to_server, args=(client, server, deaf), daemon=True).start()
            threading.Thread(target=self._to_client, args=(client, server, deaf), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._armed and COMMIT in data:
                    self._cut(data, server, deaf)
                    break
                server.sendall(data)
        _end(client, server)

    def _cut(self, data: bytes, server: socket.socket, deaf: threading.Event) -> None:
        when, self._armed = self._armed, ""
        self.cuts += 1
        deaf.set()
        if when == "after":
            server.sendall(data)
            time.sleep(0.3)  # a COMMIT that has arrived is carried out, whoever still listens

    def _to_client(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if not deaf.is_set():
                    client.sendall(data)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextlib.contextmanager
def cutting_proxy(host: str, port: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
