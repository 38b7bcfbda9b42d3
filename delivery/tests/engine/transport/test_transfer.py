"""Transfers against real sockets: what arrives, what comes back, and hostile receivers end on time."""

import gzip
import os
import resource
import threading
import time

import pycurl
import pytest

from delivery.engine.transport import handles
from delivery.engine.transport.messages import Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import fly, flying, land, names_of
from kernel.tests import hostile
from kernel.tests.hostile import answering, response, serving

AT_LONGEST = 20  # seconds: far over every deadline here, far below what the other side would take


def test_what_arrives_is_what_was_given():
    body = b'{"a": "\xc5\x81\xc3\xb3d\xc5\xba"}'
    with serving(answering(hostile.OK)) as server:
        headers = ["content-type: application/json", "webhook-id: msg_1", "x-empty;"]
        result = fly(server.url("/a/../b?x=%C5%81"), request={"body": body, "headers": headers, "key": ("k", 1)})
        head, received = server.requests[0]
    assert (result.status, result.failure, result.head, result.request.key) == (200, None, b"ok", ("k", 1))
    assert received == body
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /a/../b?x=%C5%81 HTTP/1.1"
    assert b"webhook-id: msg_1" in lines
    assert b"x-empty:" in lines
    assert b"Accept-Encoding: identity" in lines
    assert not any(line.lower().startswith((b"expect", b"user-agent", b"authorization")) for line in lines)


def test_phases_and_address():
    def slowly(head, body):
        time.sleep(0.15)
        return hostile.OK

    with serving(answering(slowly)) as server:
        result = fly(server.url(host="localhost"))
    assert result.address == "127.0.0.1"
    assert 100 < result.first_byte_ms < 1000
    assert result.total_ms >= result.first_byte_ms + result.connect_ms
    assert result.connect_ms > 0
    assert result.tls_ms == 0
    assert result.dns_ms > 0
    assert not result.reused


def test_methods_share_handles_without_leaking_into_each_other():
    with serving(answering(hostile.OK)) as server:
        with flying(max_in_flight=1) as transfers:
            for method in ("POST", "GET", "PUT", "POST", "GET", "PUT", "GET"):
                transfers.add(Request(server.url(), body=b"abc" if method != "GET" else b"", method=method))
                assert land(transfers)[0].failure is None
        lines = [(head.split(b" ")[0].decode(), body) for head, body in server.requests]
        assert server.connections == 1
    assert lines == [
        ("POST", b"abc"),
        ("GET", b""),
        ("PUT", b"abc"),
        ("POST", b"abc"),
        ("GET", b""),
        ("PUT", b"abc"),
        ("GET", b""),
    ]


def test_connections_are_reused_and_many_fly_at_once():
    barrier = threading.Barrier(50, timeout=10)

    def together(head, body):
        if b"/together" in head:
            barrier.wait()
        return hostile.OK

    with serving(answering(together)) as server, flying(max_in_flight=50) as transfers:
        for i in range(50):
            transfers.add(Request(server.url("/together"), body=b"x", key=i))
        assert transfers.free_slots == 0
        with pytest.raises(RuntimeError):
            transfers.add(Request(server.url()))
        assert sorted(r.request.key for r in land(transfers)) == list(range(50))
        for _ in range(50):
            transfers.add(Request(server.url("/"), body=b"x"))
        results = land(transfers)
        assert all(r.reused and r.connect_ms == 0 and r.address == "127.0.0.1" for r in results)
        assert server.connections == 50


@pytest.mark.parametrize(
    "handler",
    [hostile.drip_headers, hostile.drip_body, hostile.hundred_continue, hostile.never_answer],
    ids=lambda handler: handler.__name__,
)
def test_one_deadline_through_the_last_byte(handler):
    with serving(handler) as server:
        began = time.monotonic()
        result = fly(server.url(), request={"timeout_ms": 400})
        assert time.monotonic() - began < AT_LONGEST
    assert result.failure is Failure.TIMEOUT
    assert result.request_sent
    assert result.total_ms >= 390


def test_slow_tls_and_a_listener_that_never_accepts_end_on_time():
    with serving(hostile.slow_tls) as server:
        result = fly(f"https://127.0.0.1:{server.port}/", request={"timeout_ms": 400})
    assert (result.failure, result.request_sent) == (Failure.TIMEOUT, False)


def test_others_flow_while_one_hangs():
    with serving(hostile.never_answer) as dead, serving(answering(hostile.OK)) as good, flying() as transfers:
        transfers.add(Request(dead.url(), timeout_ms=30_000))
        for _ in range(20):
            transfers.add(Request(good.url()))
            assert land(transfers, 1)[0].status == 200
        assert len(transfers) == 1  # it hangs still


def test_huge_and_endless_bodies_are_cut_and_the_status_counts():
    for handler in (hostile.endless_body, answering(response("200 OK", body=b"z" * 5_000_000))):
        with serving(handler) as server:
            result = fly(server.url())
        assert (result.status, result.failure, result.truncated, len(result.head)) == (200, None, True, 16_384)


def test_a_body_up_to_the_read_cap_keeps_the_connection():
    with serving(answering(response("500 No", body=b"z" * 40_000))) as server, flying(max_in_flight=1) as transfers:
        for _ in range(2):
            transfers.add(Request(server.url()))
            result = land(transfers)[0]
            assert (result.status, len(result.head), result.truncated) == (500, 16_384, True)
        assert server.connections == 1


def test_gzip_is_unpacked_within_the_caps():
    packed = response("200 OK", "Content-Encoding: gzip", body=gzip.compress(b'{"status": "duplicate"}'))
    with serving(answering(packed)) as server:
        assert fly(server.url()).head == b'{"status": "duplicate"}'
    with serving(answering(hostile.gzip_bomb(64))) as server:
        result = fly(server.url())
    assert (result.status, result.failure, result.truncated, len(result.head)) == (200, None, True, 16_384)
    with serving(answering(response("200 OK", "Content-Encoding: gzip", body=b"this is not gzip"))) as server:
        result = fly(server.url())
    assert (result.status, result.failure) == (200, None)


def test_endless_headers_end():
    with serving(hostile.endless_headers) as server:
        result = fly(server.url())
    assert (result.failure, result.flaw) == (Failure.CONNECTION, "")


@pytest.mark.parametrize(
    "handler",
    [hostile.close_after_read, hostile.half_body, hostile.reset_after_read],
    ids=lambda handler: handler.__name__,
)
def test_broken_answers(handler):
    with serving(handler) as server:
        result = fly(server.url())
        assert len(server.requests) == 1
    assert result.failure is Failure.CONNECTION
    assert result.request_sent


def test_not_http_at_all():
    def talk(connection):
        connection.read_request()
        connection.send(b"SSH-2.0-OpenSSH_9.2\r\n")

    with serving(talk) as server:
        assert fly(server.url()).failure is Failure.CONNECTION


def test_refused_connection():
    with serving(answering(hostile.OK)) as server:
        url = server.url()
    result = fly(url)
    assert (result.failure, result.request_sent, result.address) == (Failure.CONNECTION, False, "127.0.0.1")
    assert result.detail


def test_a_half_open_idle_connection_is_replaced():
    """The receiver closed the kept connection meanwhile: the next transfer opens another and succeeds."""

    def once(connection):
        connection.read_request()
        connection.send(hostile.OK)

    with serving(once) as server, flying(max_in_flight=1) as transfers:
        for _ in range(3):
            transfers.add(Request(server.url(), body=b"x"))
            assert land(transfers)[0].status == 200
            time.sleep(0.05)


def test_redirects_are_not_followed():
    with serving(answering(hostile.OK)) as other:
        with serving(answering(response("307 Over There", f"Location: {other.url()}"))) as server:
            result = fly(server.url())
        assert (result.status, result.failure, other.connections) == (307, None, 0)


def test_nothing_from_the_environment(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(answering(hostile.OK)) as server:
        assert fly(server.url()).status == 200
        assert b"authorization" not in server.requests[0][0].lower()


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://127.0.0.1:{}/", "loopback"),
        ("http://[::ffff:127.0.0.1]:{}/", "loopback"),
        ("http://[64:ff9b::7f00:1]:{}/", "nat64"),
        ("http://169.254.169.254:{}/", "metadata"),
        ("http://2130706433:{}/", "odd_literal"),
        ("http://0177.0.0.1:{}/", "odd_literal"),
        ("http://①②⑦.⓪.⓪.①:{}/", "odd_literal"),
        ("http://a@127.0.0.1:{}/", "userinfo"),
        ("http://127.0.0.1:{}\\@example.com/", "backslash"),
        ("http://localhost:{}/", "loopback"),
        ("file:///etc/passwd?{}", "scheme"),
        ("gopher://127.0.0.1:{}/", "scheme"),
    ],
)
def test_the_guard(url, rule):
    with serving(answering(hostile.OK)) as server:
        result = fly(url.format(server.port), allowed_networks=())
        assert server.connections == 0
    assert (result.failure, result.rule) == (Failure.BLOCKED, rule)
    assert result.detail


@pytest.mark.parametrize(
    "line",
    ["x-a: b\r\nx-evil: 1", "x-a: b\nx-evil: 1", "x-a: b\x00", "x-a: ü", "x-a\r\n\r\nGET / HTTP/1.1"],
)
def test_a_header_cannot_carry_another(line):
    with serving(answering(hostile.OK)) as server, flying() as transfers:
        transfers.add(Request(server.url(), headers=[line]))
        result = land(transfers)[0]
        assert (result.failure, result.rule) == (Failure.BLOCKED, "unsendable")
        assert server.connections == 0
        transfers.add(Request(server.url(), headers=["x-a: b"]))
        assert land(transfers)[0].status == 200


def test_retry_after_is_the_final_answers():
    answer = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 7\r\n\r\n" + response("429 Slow", "Retry-After: 120")
    with serving(answering(answer)) as server:
        result = fly(server.url())
    assert (result.status, result.header("retry-after"), result.header("x-none")) == (429, "120", "")
    with serving(answering(b"HTTP/1.1 103 Early Hints\r\nRetry-After: 7\r\n\r\n" + hostile.OK)) as server:
        assert fly(server.url()).header("retry-after") == ""


def test_wake_ends_a_wait_from_another_thread():
    with flying() as transfers:
        threading.Timer(0.1, transfers.wake).start()
        began = time.monotonic()
        assert transfers.poll(60) == []
        assert time.monotonic() - began < AT_LONGEST
        began = time.monotonic()
        assert transfers.poll(0.1) == []  # the wake is spent
        assert time.monotonic() - began >= 0.09


def test_a_wake_before_the_poll_is_not_lost():
    with flying() as transfers:
        transfers.wake()
        began = time.monotonic()
        transfers.poll(60)
        assert time.monotonic() - began < AT_LONGEST


def test_abort_all_gives_everything_back_and_leaves_a_usable_engine():
    silent = threading.Event()
    names = names_of(lambda host: silent.wait(5) or ["127.0.0.1"])
    with serving(hostile.never_answer) as dead, serving(answering(hostile.OK)) as good, flying(names) as transfers:
        transfers.add(Request(dead.url(), key="hanging"))
        transfers.add(Request("http://silent.example/", key="parked"))
        transfers.add(Request("http://10.0.0.1/", key="ended"))
        time.sleep(0.1)
        transfers._turn(time.monotonic() + 0.1)
        transfers.add(Request(dead.url(), key="fresh"))
        results = {r.request.key: r for r in transfers.abort_all()}
        assert {key: r.failure for key, r in results.items()} == {
            "hanging": Failure.ABORTED,
            "parked": Failure.ABORTED,
            "fresh": Failure.ABORTED,
            "ended": Failure.BLOCKED,
        }
        assert not results["fresh"].request_sent
        assert not results["parked"].request_sent
        assert len(transfers) == 0
        transfers.add(Request(good.url()))
        assert land(transfers)[0].status == 200
        silent.set()


def test_no_descriptor_is_left_behind():
    before = len(os.listdir("/proc/self/fd"))
    with serving(answering(hostile.OK)) as server:
        with flying(max_in_flight=20) as transfers:
            for _ in range(3):
                for _ in range(20):
                    transfers.add(Request(server.url(), body=b"x"))
                land(transfers)
    time.sleep(0.2)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_no_descriptor_left_for_us_is_our_own_fault():
    with serving(answering(hostile.OK)) as server, flying() as transfers:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = [os.open("/dev/null", os.O_RDONLY)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, hard))
            transfers.add(Request(server.url()))
            result = transfers.poll(2)[0]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(taken[0])
        assert (result.failure, result.request_sent) == (Failure.OWN_FAULT, False)
        transfers.add(Request(server.url()))
        assert land(transfers)[0].status == 200


@pytest.mark.parametrize("who", ["the receiver", "libcurl"])
def test_an_idle_connection_that_somebody_closed_hurts_no_later_transfer(who, monkeypatch):
    """The descriptor's number soon is another socket's; a stale registration would wait for the dead one."""
    if who == "libcurl":
        configure = handles.Handle.configure
        monkeypatch.setattr(handles.Handle, "configure", lambda self: (configure(self), _age(self.curl)))

    def answer_while_it_is_young(connection):
        connection.sock.settimeout(0.5 if who == "the receiver" else None)
        while connection.read_request() is not None:
            connection.send(hostile.OK)

    with serving(answer_while_it_is_young) as server, flying() as transfers:
        for round_size in (20, 3, 20, 3, 20):
            for _ in range(round_size):
                transfers.add(Request(server.url(), body=b"x"))
            assert [result.status for result in land(transfers)] == [200] * round_size
            time.sleep(1.2)


def _age(curl):
    curl.setopt(pycurl.MAXAGE_CONN, 1)  # a second idle, and libcurl closes it
