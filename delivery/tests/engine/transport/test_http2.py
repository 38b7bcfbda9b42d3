"""Receivers that speak HTTP/2 and nothing else."""

import socket
import struct
from functools import partial

import pytest

from delivery.engine.transport.messages import Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import fly, flying, land
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving

DATA, HEADERS, SETTINGS, GOAWAY = 0, 1, 4, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return hostile.Certificates(tmp_path_factory.mktemp("h2"))


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """RFC 9113 §4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def read(connection, count):
    data = b""
    while len(data) < count:
        if not (chunk := connection.sock.recv(count - len(data))):
            raise OSError("gone")
        data += chunk
    return data


def speak_http2(connection, drops_second=False):
    """As much of a server as it takes: every request is answered 200 (0x88 in HPACK's static table)."""
    connection.send(frame(SETTINGS))
    if read(connection, 24) != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
        connection.send(frame(GOAWAY, payload=struct.pack(">II", 0, 1)))
        return
    requests = 0
    while True:
        head = read(connection, 9)
        read(connection, int.from_bytes(head[:3], "big"))
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        if kind == SETTINGS and not flags & ACK:
            connection.send(frame(SETTINGS, ACK))
        if kind == HEADERS:
            requests += 1
            connection.server.requests.append((head, b""))
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            if drops_second and requests == 2:
                return
            connection.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88"))


@pytest.fixture
def context(certificates):
    context = certificates.server_context("127.0.0.1")
    context.set_alpn_protocols(["h2"])
    return context


def test_a_handshake_refused_for_want_of_http2_is_begun_again_with_it(certificates, context):
    def strict(connection):
        """Python's TLS goes on where no protocol is in common; this receiver does not (RFC 7301 §3.2)."""
        hello = connection.sock.recv(65536, socket.MSG_PEEK)
        if b"\x02h2" not in hello:
            connection.sock.recv(65536)
            connection.send(b"\x15\x03\x03\x00\x02\x02\x78")
            return
        connection.sock = context.wrap_socket(connection.sock, server_side=True)
        speak_http2(connection)

    with serving(strict) as server, flying(max_in_flight=1, ca_file=str(certificates.ca_file)) as transfers:
        for _ in range(2):
            transfers.add(Request(f"https://127.0.0.1:{server.port}/", body=b"x", timeout_ms=2000))
            result = land(transfers)[0]
            assert (result.status, result.failure) == (200, None)
        assert (len(server.requests), server.connections) == (2, 2)


def test_a_receiver_of_http2_alone_is_learnt_from_its_first_answer(certificates, context):
    with serving(speak_http2, tls=context) as server:
        with flying(max_in_flight=1, ca_file=str(certificates.ca_file)) as transfers:
            results = []
            for method in ("POST", "POST", "GET", "PUT"):
                body = b"" if method == "GET" else b"x"
                transfers.add(Request(server.url("/a%2fb"), ["webhook-id: msg_1"], body, method, 2000))
                results += land(transfers)
        assert (len(server.requests), server.connections) == (3, 2)
    assert (results[0].failure, results[0].request_sent) == (Failure.CONNECTION, True)
    assert "HTTP/2" in results[0].detail and "0.9" not in results[0].detail
    assert [(result.status, result.failure) for result in results[1:]] == [(200, None)] * 3
    assert [result.reused for result in results[1:]] == [False, True, True]


def test_a_kept_http2_connection_that_is_dropped_costs_one_request(certificates, context):
    with serving(partial(speak_http2, drops_second=True), tls=context) as server:
        with flying(max_in_flight=1, ca_file=str(certificates.ca_file)) as transfers:
            results = []
            for _ in range(3):
                transfers.add(Request(server.url(), body=b"x", timeout_ms=2000))
                results += land(transfers)
        assert len(server.requests) == 2
    assert [(result.status, result.failure) for result in results[1:]] == [(200, None), (0, Failure.CONNECTION)]
    assert results[2].request_sent


def test_http2_without_tls_is_told_in_words():
    with serving(speak_http2) as server:
        result = fly(server.url())
    assert result.failure is Failure.CONNECTION
    assert "https://" in result.detail and "0.9" not in result.detail


def test_who_speaks_both_is_spoken_to_in_http_1(certificates):
    context = certificates.server_context("127.0.0.1")
    context.set_alpn_protocols(["h2", "http/1.1"])
    with serving(answering(hostile.OK), tls=context) as server:
        assert fly(server.url(), ca_file=str(certificates.ca_file)).status == 200
