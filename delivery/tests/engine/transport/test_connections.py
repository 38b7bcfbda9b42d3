"""Which descriptor a connection has, whatever became of the numbers meanwhile."""

import os
import socket

import pytest

from delivery.engine.transport import handles
from delivery.engine.transport.connections import KeptConnections
from delivery.engine.transport.messages import Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import flying, land
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving

ORIGIN = "http://receiver.example"


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        with theirs:
            yield ours


def ends_of(connection):
    return (
        *connection.getpeername()[:1],
        *connection.getsockname()[:1],
        connection.getpeername()[1],
        connection.getsockname()[1],
    )


def closed_number():
    number = os.eventfd(0)
    os.close(number)
    return number


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("what", ["nobody's", "a pipe's", "another family's"])
def test_a_descriptor_that_was_closed_meanwhile_is_passed_over(connection, what, place):
    reading, writing = os.pipe()
    local = socket.socket(socket.AF_UNIX)
    try:
        other = {"nobody's": closed_number(), "a pipe's": reading, "another family's": local.fileno()}[what]
        descriptors = (other, connection.fileno()) if place == "before" else (connection.fileno(), other)
        kept = KeptConnections()
        kept.note(ends_of(connection), descriptors, ORIGIN)
        assert kept.is_silent(ends_of(connection))
        os.write(writing, b"still open")
        assert os.read(reading, 10) == b"still open"
    finally:
        local.close()
        os.close(reading)
        os.close(writing)


def test_a_connection_that_none_of_them_is_carries_no_second_request(connection):
    kept = KeptConnections()
    kept.note(ends_of(connection), (closed_number(), closed_number()), ORIGIN)
    assert not kept.is_silent(ends_of(connection))
    assert kept.received(ends_of(connection)) == -1


@pytest.mark.parametrize("place", ["note", "_judge", "has_read_since"])
def test_what_breaks_while_one_transfer_is_looked_after_ends_that_one_alone(monkeypatch, tmp_path, place):
    """Once for the first transfer; the other in the air ends as ever, and so does the next."""
    owner = handles.Handle if place == "_judge" else KeptConnections
    whole, broken = getattr(owner, place), []

    def breaks_once(self, *args, **options):
        if not broken and (place != "has_read_since" or len(answers) > 1):
            broken.append(place)
            raise OSError(9, "Bad file descriptor")
        return whole(self, *args, **options)

    monkeypatch.setattr(owner, place, breaks_once)
    certificates = hostile.Certificates(tmp_path)
    answers = []
    with (
        serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as server,
        flying(max_in_flight=2, ca_file=str(certificates.ca_file)) as transfers,
    ):
        for _ in range(3):
            for _ in range(2):
                transfers.add(Request(server.url(), body=b"x", timeout_ms=3000))
            answers += land(transfers)
    ours = [answer for answer in answers if answer.failure]
    assert [(answer.failure, answer.rule) for answer in ours] == [(Failure.OWN_FAULT, "other")]
    assert ours[0].detail == "Looking after the transfer failed: OSError."
    assert [answer.status for answer in answers if not answer.failure] == [200] * 5
