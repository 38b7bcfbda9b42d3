"""A real uvicorn on loopback in a thread of the test, as the shipped commands start it; and raw sockets to it."""

import contextlib
import json
import socket
import threading
import time

import uvicorn


@contextlib.contextmanager
def served(app, **options):
    """(host, port) of a running server; it ends with the block."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_config=None, access_log=False, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive() and time.monotonic() < give_up, "uvicorn did not start"
        time.sleep(0.02)
    try:
        yield server.servers[0].sockets[0].getsockname()
    finally:
        server.should_exit = True
        thread.join(30)


def chunked(address, method, path, body, token=""):
    """(status, parsed answer) of a request whose body comes in chunks, without a Content-Length."""
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    head += ["Transfer-Encoding: chunked", "Connection: close"]
    head += [f"Authorization: Bearer {token}"] if token else []
    raw = json.dumps(body).encode()
    pieces = [raw[at : at + 7] for at in range(0, len(raw), 7)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    answer = exchange(address, "\r\n".join(head).encode() + b"\r\n\r\n" + chunks)
    status, _, rest = answer.partition(b"\r\n\r\n")
    return int(status.split()[1]), json.loads(rest) if rest[:1] in b"[{" else rest


def exchange(address, raw):
    """All that the server answers until it closes."""
    said = b""
    with socket.create_connection(address, timeout=60) as line, contextlib.suppress(ConnectionError):
        line.sendall(raw)
        while piece := line.recv(65536):
            said += piece
    return said
