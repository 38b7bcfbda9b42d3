"""Receivers that misbehave on purpose, on real loopback sockets, for the tests of everything that calls out."""

from __future__ import annotations

import contextlib
import datetime
import errno
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


class Connection:
    """One accepted connection, with the little that a handler needs."""

    def __init__(self, sock: socket.socket, server: Server) -> None:
        self.sock = sock
        self.server = server
        self._rest = b""

    def read_request(self) -> tuple[bytes, bytes] | None:
        """(head, body), or None where the peer closed."""
        data = self._rest
        while b"\r\n\r\n" not in data:
            chunk = self.sock.recv(65536)
            if not chunk:
                return None
            data += chunk
        head, _, data = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(data) < length:
            data += self.sock.recv(65536)
        self._rest = data[length:]
        self.server.requests.append((head, data[:length]))
        return head, data[:length]

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes, pause: float = 0.05) -> None:
        for i in range(len(data)):
            self.sock.sendall(data[i : i + 1])
            if self.server.closing.wait(pause):
                return

    def hang(self) -> None:
        self.server.closing.wait(30)


class Server:
    """Runs `handler(connection)` in a thread for each connection; `requests` is the journal of what was read."""

    def __init__(
        self, handler: Callable[[Connection], None], *, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
    ) -> None:
        self.handler = handler
        self.tls = tls
        self.requests: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self.closing = threading.Event()
        self.listener = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=512
        )
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError as error:
                if error.errno == errno.EMFILE and not self.closing.wait(0.01):
                    continue  # a test has taken all descriptors for a moment
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            self.handler(Connection(sock, self))
        with contextlib.suppress(OSError):
            sock.close()

    def close(self) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextlib.contextmanager
def serving(handler: Callable[[Connection], None], **options: object) -> Iterator[Server]:
    server = Server(handler, **options)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()


def answering(answer: bytes | Callable[[bytes, bytes], bytes]) -> Callable[[Connection], None]:
    """A handler that keeps the connection and gives every request this answer."""

    def handle(connection: Connection) -> None:
        while (request := connection.read_request()) is not None:
            connection.send(answer(*request) if callable(answer) else answer)

    return handle


def response(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def drip_headers(connection: Connection) -> None:
    connection.read_request()
    connection.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 200)


def drip_body(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    connection.drip(b"x" * 1000)


def hundred_continue(connection: Connection) -> None:
    connection.read_request()
    while not connection.server.closing.wait(0.01):
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")


def never_answer(connection: Connection) -> None:
    connection.read_request()
    connection.hang()


def close_after_read(connection: Connection) -> None:
    connection.read_request()


def half_body(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")


def endless_headers(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\n")
    while not connection.server.closing.is_set():
        connection.send(b"X-More: " + b"y" * 1000 + b"\r\n")


def endless_body(connection: Connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not connection.server.closing.is_set():
        connection.send(b"10000\r\n" + b"z" * 0x10000 + b"\r\n")


def gzip_bomb(megabytes: int) -> bytes:
    packed = gzip.compress(b"\0" * (megabytes << 20))
    return response("200 OK", "Content-Encoding: gzip", body=packed)


def slow_tls(connection: Connection) -> None:
    """A listener without TLS that takes the ClientHello and says nothing."""
    connection.sock.recv(65536)
    connection.hang()


def reset_after_read(connection: Connection) -> None:
    connection.read_request()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


class Certificates:
    """A CA of our own and what it signs, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._ca = self._issue("Test CA", self._key, None, [], days=(-1, 10), is_ca=True)
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self._ca.public_bytes(serialization.Encoding.PEM))

    def server_context(
        self, *names: str, days: tuple[int, int] = (-1, 10), self_signed: bool = False
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pem_file(*names, days=days, self_signed=self_signed))
        return context

    def pem_file(self, *names: str, days: tuple[int, int] = (-1, 10), self_signed: bool = False) -> Path:
        """Certificate and key in one PEM file, for these names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(names[0], key, None if self_signed else self._ca, list(names), days=days)
        path = self.folder / f"{names[0]}-{time.monotonic_ns()}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def _issue(self, name, key, issuer, names, *, days, is_ca=False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + datetime.timedelta(days=days[0]))
            .not_valid_after(now + datetime.timedelta(days=days[1]))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        return builder.sign(self._key if issuer or is_ca else key, hashes.SHA256())


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
