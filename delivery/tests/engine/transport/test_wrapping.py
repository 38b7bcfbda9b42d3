"""What an answer is worth whose status has come, but whose wrapping is flawed; and the request target as written."""

import pytest

from delivery.engine.transport.messages import Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import fly, flying, land, names_of
from delivery.tests.engine.transport.test_tls_and_proxy import tunnel
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving

HEAD = b"HTTP/1.1 200 OK\r\n"
FLAWED = {
    "NUL in a header": HEAD + b"x-a: b\0c\r\nContent-Length: 2\r\n\r\nok",
    "header without a colon": HEAD + b"nonsense\r\nContent-Length: 2\r\n\r\nok",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "length that is no number": HEAD + b"Content-Length: two\r\n\r\nok",
    "chunk size that is no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
    "chunk longer than it says": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n",
    "packed in name only": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("flaw", FLAWED)
def test_a_flawed_wrapping_does_not_undo_the_status(flaw):
    with serving(answering(FLAWED[flaw])) as server:
        result = fly(server.url())
        assert len(server.requests) == 1
    assert (result.status, result.failure, result.is_whole) == (200, None, False)
    assert result.flaw


def test_headers_larger_than_we_keep_are_no_failure():
    large = b"".join(b"x-%d: %s\r\n" % (i, b"y" * 1000) for i in range(100))
    with serving(answering(HEAD + b"retry-after: 3\r\n" + large + b"Content-Length: 2\r\n\r\nok")) as server:
        with flying(max_in_flight=1) as transfers:
            for _ in range(2):
                transfers.add(Request(server.url()))
                result = land(transfers)[0]
                assert (result.status, result.failure, result.head, result.is_whole) == (200, None, b"ok", True)
                assert "64 KiB" in result.flaw
                assert result.header("retry-after") == "3"
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"x-a: b\r\n",
        HEAD + b"Content-Length: 99\r\n\r\nhalf",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 2",
    ],
    ids=["in the head", "in the body", "between chunks", "in the status line"],
)
def test_an_answer_cut_off_by_a_lost_connection_stays_ambiguous(answer):
    def once(connection):
        connection.read_request()
        connection.send(answer)

    with serving(once) as server:
        result = fly(server.url())
    assert (result.failure, result.request_sent, result.flaw) == (Failure.CONNECTION, True, "")


def test_a_flawed_answer_after_an_early_hint_is_not_the_hints():
    with serving(answering(b"HTTP/1.1 103 Early Hints\r\nnonsense\r\n\r\n" + hostile.OK)) as server:
        assert fly(server.url()).failure is Failure.CONNECTION


TARGETS = ["/a%2fb", "/%c5%81/%zz/%", "/a/../b/./c//d", "/?a=%2f%2F&b=%c5", "?q=%7e", "/a%2fb?c=%2fd#never"]


@pytest.mark.parametrize("method", ["POST", "GET", "PUT"])
def test_the_request_target_goes_out_as_it_was_written(method):
    with serving(answering(hostile.OK)) as server, flying(max_in_flight=1) as transfers:
        for target in TARGETS:
            transfers.add(Request(server.url(target), method=method))
            assert land(transfers)[0].status == 200
        lines = [head.split(b"\r\n")[0].decode() for head, _ in server.requests]
        hosts = {
            line for head, _ in server.requests for line in head.split(b"\r\n") if line.lower().startswith(b"host:")
        }
    expected = [("" if target.startswith("/") else "/") + target.partition("#")[0] for target in TARGETS]
    assert lines == [f"{method} {target} HTTP/1.1" for target in expected]
    assert hosts == {f"Host: 127.0.0.1:{server.port}".encode()}


def test_the_request_target_goes_through_a_proxy_as_it_was_written():
    names = names_of(lambda host: ["127.0.0.1"])
    with serving(tunnel()) as proxy, serving(answering(hostile.OK)) as server:
        assert fly(server.url("/a%2fb?c=%2fd", host="good.example"), names=names, proxy_url=proxy.url()).status == 200
        assert proxy.requests[0][0].startswith(f"CONNECT 127.0.0.1:{server.port} ".encode())
        assert server.requests[0][0].startswith(b"POST /a%2fb?c=%2fd HTTP/1.1\r\n")
