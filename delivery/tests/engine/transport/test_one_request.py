"""One attempt is one request on the wire, whatever the age of its connection and however the receiver drops it."""

import socket
import threading
import time
from collections import Counter

import pytest

from delivery.engine.transport.messages import Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import flying, land, names_of
from kernel.tests import hostile
from kernel.tests.hostile import answering, response, serving

RESET = b"\1\0\0\0\0\0\0\0"


def closes(connection):
    pass


def resets(connection):
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def sends_half_an_answer(connection):
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")


def sends_half_a_status_line(connection):
    connection.send(b"HTTP/1.1 2")
    resets(connection)


def works_and_drops(connection):
    time.sleep(1.5)
    resets(connection)


def dropping(drop):
    """Answers every request but those to /drop, after which it ends the connection in this way."""

    def handle(connection):
        while (request := connection.read_request()) is not None:
            if b"/drop" in request[0].split(b"\r\n")[0]:
                drop(connection)
                return
            connection.send(hostile.OK)

    return handle


def ids_of(server):
    lines = [line for head, _ in server.requests for line in head.split(b"\r\n")]
    return Counter(line.split(b": ")[1].decode() for line in lines if line.startswith(b"webhook-id:"))


def requests_to(url, ids, method):
    body = b"" if method == "GET" else b'{"a": 1}'
    return [Request(url, headers=[f"webhook-id: {uid}"], body=body, method=method, timeout_ms=8000) for uid in ids]


@pytest.mark.parametrize("method", ["POST", "PUT", "GET"])
@pytest.mark.parametrize(
    "drop", [closes, resets, sends_half_an_answer, sends_half_a_status_line, works_and_drops], ids=lambda d: d.__name__
)
def test_a_used_connection_that_is_dropped_costs_one_request(drop, method):
    rounds, at_once = (4, 20) if drop is not works_and_drops else (1, 20)
    with serving(dropping(drop)) as server, flying(max_in_flight=at_once) as transfers:
        for turn in range(rounds):
            warm, dropped = ([f"{name}{turn}_{i}" for i in range(at_once)] for name in ("warm", "dropped"))
            for request in requests_to(server.url("/ok"), warm, method):
                transfers.add(request)
            assert {result.status for result in land(transfers)} == {200}
            for request in requests_to(server.url("/drop"), dropped, method):
                transfers.add(request)
            results = land(transfers)
            assert {(result.failure, result.request_sent) for result in results} == {(Failure.CONNECTION, True)}
            assert any(result.reused for result in results)
            assert all(result.detail for result in results)
        assert ids_of(server) == {
            f"{name}{t}_{i}": 1 for name in ("warm", "dropped") for t in range(rounds) for i in range(at_once)
        }


def test_a_thousand_requests_use_their_connections_again():
    with serving(answering(hostile.OK)) as server, flying(max_in_flight=20) as transfers:
        done = 0
        for uid in range(1000):
            if not transfers.free_slots:
                done += len(land(transfers, 1))
            transfers.add(Request(server.url(), headers=[f"webhook-id: {uid}"], body=b"x"))
        assert done + len(land(transfers)) == 1000
        assert max(ids_of(server).values()) == 1
        assert server.connections == 20


@pytest.mark.parametrize("addresses", [["::1", "127.0.0.1"], ["127.0.0.1", "::1"], ["127.0.0.2", "127.0.0.1"]])
def test_the_connection_that_won_among_several_addresses_is_used_again(addresses):
    names = names_of(lambda host: addresses)
    with serving(answering(hostile.OK)) as server, flying(names, max_in_flight=1) as transfers:
        for _ in range(5):
            transfers.add(Request(server.url(host="two.example"), body=b"x"))
            assert land(transfers)[0].status == 200
        assert server.connections == 1


def test_a_connection_that_was_closed_while_idle_is_replaced_before_anything_is_sent():
    """Within the second in which libcurl believes a used connection without a look."""

    def once(connection):
        connection.read_request()
        connection.send(hostile.OK)

    with serving(once) as server, flying(max_in_flight=1) as transfers:
        for uid in range(50):
            transfers.add(Request(server.url(), headers=[f"webhook-id: {uid}"], method="GET"))
            result = land(transfers)[0]
            assert (result.status, result.reused) == (200, False)
            time.sleep(0.005)
        assert ids_of(server) == {str(uid): 1 for uid in range(50)}


# --- answers nobody asked for ---------------------------------------------------------------------------------------

SURPLUS = {
    "a length": hostile.OK,
    "no body": response("200 OK"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("shape", SURPLUS)
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "in one piece"])
def test_a_surplus_answer_is_not_taken_for_the_next_ones(shape, apart):
    def handle(connection):
        while (request := connection.read_request()) is not None:
            if b"/first" in request[0]:
                answers = [SURPLUS[shape]] * 50
                for piece in answers if apart else [b"".join(answers)]:
                    connection.send(piece)
                    time.sleep(0.0001 if apart else 0)
            else:
                connection.send(response("500 No", body=b"no"))

    with serving(handle) as server, flying(max_in_flight=1) as transfers:
        statuses = []
        for path in ["/first"] + ["/"] * 50:
            transfers.add(Request(server.url(path), body=b"x"))
            statuses.append(land(transfers)[0].status)
            if path == "/first":
                time.sleep(0.1)
    assert statuses[1:] == [500] * 50
    assert len(server.requests) == 51


def test_who_answers_unasked_gets_a_fresh_connection_for_each_request():
    """A late surplus answer could come right after the next request went out."""

    def handle(connection):
        while connection.read_request() is not None:
            connection.send(hostile.OK)
            time.sleep(0.02)
            connection.send(hostile.OK)

    with serving(handle) as server, serving(answering(hostile.OK)) as other, flying(max_in_flight=1) as transfers:
        transfers.add(Request(server.url()))
        land(transfers)
        transfers.poll(0.2)
        for _ in range(5):
            for url in (server.url(), other.url()):
                transfers.add(Request(url, body=b"x"))
                assert land(transfers)[0].status == 200
        assert (server.connections, other.connections) == (6, 1)


def test_a_surplus_answer_behind_tls(tmp_path):
    certificates, surplus_is_out = hostile.Certificates(tmp_path), threading.Event()

    def handle(connection):
        while (request := connection.read_request()) is not None:
            if b"/first" in request[0]:
                connection.send(hostile.OK)
                connection.send(hostile.OK)
            else:
                time.sleep(0.05)  # an answer in the very moment in which the surplus is read cannot be told from it
                connection.send(response("500 No"))
            surplus_is_out.set()

    context = certificates.server_context("127.0.0.1")
    with serving(handle, tls=context) as server:
        with flying(max_in_flight=1, ca_file=str(certificates.ca_file)) as transfers:
            results = []
            for path in ("/first", "/", "/first", "/", "/first", "/"):
                surplus_is_out.clear()
                transfers.add(Request(server.url(path), body=b"x"))
                results += land(transfers)
                assert surplus_is_out.wait(20)
                time.sleep(0.02)
        assert len(server.requests) == 6
    assert {result.status for result in results[::2]} == {200}
    # The surplus may have waited where only OpenSSL sees it: then that one attempt has no answer, and it is the last.
    answers = [(result.failure, result.status) for result in results[1::2]]
    unanswered = [result for result in results[1::2] if result.failure is not None]
    assert len(unanswered) <= 1 and answers.count((None, 500)) == 3 - len(unanswered)
    assert {(result.failure, result.request_sent) for result in unanswered} <= {(Failure.CONNECTION, True)}


def test_a_kept_tls_connection_is_used_again(tmp_path):
    certificates = hostile.Certificates(tmp_path)
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as server:
        with flying(max_in_flight=1, ca_file=str(certificates.ca_file)) as transfers:
            for _ in range(20):
                transfers.add(Request(server.url(), body=b"x"))
                assert land(transfers)[0].status == 200
        assert server.connections == 1
