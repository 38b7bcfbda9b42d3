"""The provider session against receivers that misbehave: every call ends on time, typed, and with a bounded body."""

import threading
import time

import pytest

from kernel.network import http, lookup
from kernel.network.http import provider_session
from kernel.network.openings import parse_openings
from kernel.tests import hostile
from kernel.tests.hostile import answering, response, serving

AT_LONGEST = 20  # seconds: far over every deadline here, far below what the other side would take

LOOPBACK = parse_openings("127.0.0.0/8")


def session(**options):
    return provider_session(**({"allowed_networks": LOOPBACK, "total_seconds": 0.5} | options))


@pytest.mark.parametrize(
    "handler",
    [hostile.drip_headers, hostile.drip_body, hostile.hundred_continue, hostile.never_answer],
    ids=lambda handler: handler.__name__,
)
def test_one_deadline_through_the_last_byte(handler):
    with serving(handler) as server:
        began = time.monotonic()
        with pytest.raises(http.DeadlineExceeded) as caught:
            session().post(server.url(), json={})
        assert time.monotonic() - began < AT_LONGEST
    assert caught.value.maybe_sent
    assert "0.5 s" in caught.value.detail


def test_slow_tls_ends_on_time_and_nothing_was_sent():
    with serving(hostile.slow_tls) as server:
        began = time.monotonic()
        with pytest.raises(http.DeadlineExceeded) as caught:
            session().post(f"https://127.0.0.1:{server.port}/", json={})
        assert time.monotonic() - began < AT_LONGEST
    assert not caught.value.maybe_sent


def test_the_deadline_holds_on_a_reused_connection_too():
    def handle(connection):
        connection.read_request()
        connection.send(hostile.OK)
        connection.read_request()
        connection.hang()

    with serving(handle) as server:
        used = session()
        assert used.get(server.url()).text == "ok"
        with pytest.raises(http.DeadlineExceeded):
            used.get(server.url())
        assert server.connections == 1


def test_body_cap_counts_decompressed_bytes():
    with serving(answering(hostile.gzip_bomb(64))) as server:
        with pytest.raises(http.BodyTooLarge):
            session(max_body_bytes=1 << 20, total_seconds=5).get(server.url())
    with serving(hostile.endless_body) as server:
        with pytest.raises(http.BodyTooLarge):
            session(max_body_bytes=1 << 20, total_seconds=5).get(server.url())


def test_a_body_that_says_it_is_too_long_is_not_read():
    for length in ("9999999", "9" * 40):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()
        with serving(answering(head + b"x" * 100)) as server:
            with pytest.raises(http.BodyTooLarge, match="says that it has") as caught:
                session(max_body_bytes=1 << 20, total_seconds=5).get(server.url())
            assert "1,048,576 bytes" in caught.value.detail and caught.value.maybe_sent


def test_a_redirect_is_an_answer_and_cookies_are_not_kept():
    with serving(answering(response("302 Found", "Location: http://127.0.0.1:1/", "Set-Cookie: a=b"))) as server:
        used = session()
        answer = used.get(server.url())
        used.get(server.url())
        assert (answer.status_code, len(server.requests)) == (302, 2)
        assert b"cookie" not in server.requests[1][0].lower()


def test_nothing_from_the_environment(monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(answering(hostile.OK)) as server:
        assert session().get(server.url()).status_code == 200
        assert b"authorization" not in server.requests[0][0].lower()


def test_broken_answers_are_connection_failures_and_never_repeated():
    for handler in (hostile.close_after_read, hostile.half_body, hostile.reset_after_read):
        with serving(handler) as server:
            with pytest.raises(http.ConnectionFailed) as caught:
                session(total_seconds=3).post(server.url(), json={})
            assert caught.value.maybe_sent
            assert len(server.requests) == 1


def test_refused_connection_was_not_sent():
    with serving(hostile.close_after_read) as server:
        url = server.url()
    with pytest.raises(http.ConnectionFailed) as caught:
        session().post(url, json={})
    assert not caught.value.maybe_sent


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}/", "http://localhost:{}/", "http://user@127.0.0.1:{}/"])
def test_the_guard(url):
    with serving(answering(hostile.OK)) as server:
        with pytest.raises(http.AddressBlocked) as caught:
            session(allowed_networks=()).get(url.format(server.port))
        assert server.connections == 0
    assert not caught.value.maybe_sent


def test_a_private_provider_is_called_at_the_ports_that_are_opened():
    with serving(answering(hostile.OK)) as server:
        there, elsewhere = f"127.0.0.0/8:{server.port}", "127.0.0.0/8:1-3, acme@127.0.0.0/8"
        assert session(allowed_networks=parse_openings(there)).get(server.url()).status_code == 200
        with pytest.raises(http.AddressBlocked):
            session(allowed_networks=parse_openings(elsewhere)).get(server.url())
        assert server.connections == 1


def test_no_provider_is_called_where_no_web_server_lives():
    with pytest.raises(http.AddressBlocked, match="port 25") as caught:
        session(allowed_networks=()).get("http://8.8.8.8:25/")
    assert not caught.value.maybe_sent


def test_a_name_that_changes_its_mind_is_judged_at_every_connection(monkeypatch):
    answers = [("127.0.0.1",), ("169.254.169.254",)]
    monkeypatch.setattr(lookup, "addresses_of", lambda host: answers.pop(0))
    with serving(hostile.close_after_read) as server:
        used = session()
        with pytest.raises(http.ConnectionFailed):
            used.get(server.url(host="rebind.example"))
        with pytest.raises(http.AddressBlocked, match="metadata"):
            used.get(server.url(host="rebind.example"))


def test_names_that_do_not_resolve(monkeypatch):
    silent = threading.Event()

    def gone(host):
        raise lookup.NameNotFound("no such name")

    monkeypatch.setattr(lookup, "addresses_of", gone)
    with pytest.raises(http.NameUnresolved):
        session().get("http://nowhere.example/")
    monkeypatch.setattr(lookup, "addresses_of", lambda host: silent.wait(60))
    began = time.monotonic()
    with pytest.raises(http.CallFailed):
        session(total_seconds=0.2).get("http://silent.example/")
    silent.set()
    assert time.monotonic() - began < AT_LONGEST


def test_tls_is_verified(tmp_path):
    certificates = hostile.Certificates(tmp_path)
    good = certificates.server_context("127.0.0.1")
    with serving(answering(hostile.OK), tls=good) as server:
        assert session(ca_file=str(certificates.ca_file), total_seconds=3).get(server.url()).status_code == 200
        with pytest.raises(http.TlsFailed):
            session(total_seconds=3).get(server.url(), verify=False)
    for context in (
        certificates.server_context("other.example"),
        certificates.server_context("127.0.0.1", days=(-10, -1)),
        certificates.server_context("127.0.0.1", self_signed=True),
    ):
        with serving(answering(hostile.OK), tls=context) as server:
            with pytest.raises(http.TlsFailed) as caught:
                session(ca_file=str(certificates.ca_file), total_seconds=3).post(server.url(), json={})
            assert not caught.value.maybe_sent
            assert server.requests == []


def test_errors_carry_no_url():
    with serving(hostile.close_after_read) as server:
        with pytest.raises(http.CallFailed) as caught:
            session(total_seconds=2).get(server.url("/secret-path?token=abc"))
    assert "secret-path" not in str(caught.value)
    assert "token" not in str(caught.value)
