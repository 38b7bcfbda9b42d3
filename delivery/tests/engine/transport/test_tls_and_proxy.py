"""TLS that must be refused or accepted, client certificates, and the egress proxy."""

import base64
import contextlib
import os
import socket
import ssl
import threading

import pytest
from cryptography.hazmat.primitives import serialization

from delivery.engine.transport.messages import ClientCertificate, Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import fly, flying, land, names_of
from kernel.tests import hostile
from kernel.tests.hostile import answering, response, serving


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return hostile.Certificates(tmp_path_factory.mktemp("tls"))


def test_a_good_certificate_and_its_phase(certificates):
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as server:
        result = fly(server.url(), ca_file=str(certificates.ca_file))
    assert (result.status, result.failure) == (200, None)
    assert result.tls_ms > 0


@pytest.mark.parametrize("wrong", ["name", "expired", "not_yet", "self_signed", "unknown_ca"])
def test_bad_certificates(certificates, wrong):
    context = {
        "name": lambda: certificates.server_context("other.example"),
        "expired": lambda: certificates.server_context("127.0.0.1", days=(-10, -1)),
        "not_yet": lambda: certificates.server_context("127.0.0.1", days=(1, 10)),
        "self_signed": lambda: certificates.server_context("127.0.0.1", self_signed=True),
        "unknown_ca": lambda: certificates.server_context("127.0.0.1"),
    }[wrong]()
    with serving(answering(hostile.OK), tls=context) as server:
        result = fly(server.url(), ca_file="" if wrong == "unknown_ca" else str(certificates.ca_file))
        assert server.requests == []
    assert (result.failure, result.request_sent) == (Failure.TLS, False)
    assert result.detail


def test_plain_http_behind_https_is_a_tls_failure():
    def answer_at_once(connection):
        connection.send(response("400 Bad Request"))
        connection.hang()

    with serving(answer_at_once) as server:
        assert fly(f"https://127.0.0.1:{server.port}/").failure is Failure.TLS


def test_the_name_is_checked_and_not_the_pinned_address(certificates):
    with serving(answering(hostile.OK), tls=certificates.server_context("good.example")) as server:
        options = {"ca_file": str(certificates.ca_file)}
        names = names_of(lambda host: ["127.0.0.1"])
        assert fly(server.url(host="good.example"), names=names, **options).status == 200
        names = names_of(lambda host: ["127.0.0.1"])
        assert fly(server.url(host="bad.example"), names=names, **options).failure is Failure.TLS


def test_own_ca_and_client_certificate_of_one_endpoint_only(certificates):
    context = certificates.server_context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.ca_file)
    pem = certificates.pem_file("client.example").read_bytes()
    with serving(answering(hostile.OK), tls=context) as server, flying(max_in_flight=1) as transfers:
        plain = {"ca_certificates": certificates.ca_file.read_bytes()}
        with_client = plain | {"client_certificate": ClientCertificate(pem, pem)}
        seen = []
        for options in (with_client, plain, {}, with_client):
            transfers.add(Request(server.url(), timeout_ms=2000, **options))
            seen.append(land(transfers)[0])
    assert [result.status for result in seen] == [200, 0, 0, 200]
    assert seen[2].failure is Failure.TLS


def test_a_missing_ca_file_is_our_own_fault(tmp_path):
    with serving(hostile.slow_tls) as server:
        result = fly(f"https://127.0.0.1:{server.port}/", ca_file=str(tmp_path / "none.pem"))
    assert result.failure is Failure.OWN_FAULT


@pytest.mark.parametrize("folder", ["Zoë ünd so", os.fsdecode(b"caf\xe9"), "日本"], ids=["spaces", "latin-1", "wide"])
def test_a_ca_file_may_lie_in_any_folder(certificates, tmp_path, folder):
    own = tmp_path / folder / "our CÄ.pem"
    own.parent.mkdir()
    own.write_bytes(certificates.ca_file.read_bytes())
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as server:
        assert fly(server.url(), ca_file=str(own)).status == 200


@pytest.mark.parametrize("folder", ["Zoë ünd so", os.fsdecode(b"caf\xe9")], ids=["spaces", "latin-1"])
def test_the_bundle_we_bring_may_lie_in_any_folder(certificates, tmp_path, monkeypatch, folder):
    """It lies in the clone's own .venv."""
    bundle = tmp_path / folder / "cacert.pem"
    bundle.parent.mkdir()
    bundle.write_bytes(certificates.ca_file.read_bytes())
    monkeypatch.setattr("certifi.where", lambda: str(bundle))
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as server:
        assert fly(server.url()).status == 200
        with serving(tunnel()) as proxy:
            assert fly(server.url(), proxy_url=proxy.url()).status == 200


def test_a_private_keys_password_may_hold_any_letter(certificates):
    context = certificates.server_context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.ca_file)
    pem = certificates.pem_file("client.example").read_bytes()
    key = serialization.load_pem_private_key(pem, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption("pässword".encode()),
    )
    with serving(answering(hostile.OK), tls=context) as server:
        certificate = ClientCertificate(pem[pem.index(b"-----BEGIN CERT") :], key, "pässword")
        options = {"client_certificate": certificate}
        assert fly(server.url(), ca_file=str(certificates.ca_file), request=options).status == 200


@pytest.mark.parametrize("written", ["zoë:pässword", "zo%C3%AB:p%C3%A4ssword"])
def test_the_proxys_user_and_password_may_hold_any_letter(written):
    with serving(tunnel()) as proxy, serving(answering(hostile.OK)) as server:
        url = f"http://{written}@127.0.0.1:{proxy.port}"
        assert fly(server.url(), proxy_url=url).status == 200
        told = base64.b64encode("zoë:pässword".encode())
        assert b"Proxy-Authorization: Basic " + told in proxy.requests[0][0]


def tunnel(answer: bytes = b"HTTP/1.1 200 Established\r\n\r\n"):
    """A CONNECT proxy; it dials loopback whatever it is asked for."""

    def handle(connection):
        head, _ = connection.read_request()
        connection.send(answer)
        if b" 200 " not in answer:
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            _pump_both(connection.sock, upstream)

    return handle


def _pump_both(one: socket.socket, other: socket.socket) -> None:
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join(5)


def test_everything_goes_through_the_proxy_by_the_address_that_was_judged(certificates):
    names = names_of(lambda host: ["127.0.0.1"])
    context = certificates.server_context("good.example")
    with serving(tunnel()) as proxy, serving(answering(hostile.OK), tls=context) as server:
        options = {"proxy_url": proxy.url(), "ca_file": str(certificates.ca_file)}
        assert fly(server.url(host="good.example"), names=names, **options).status == 200
        assert proxy.requests[0][0].startswith(f"CONNECT 127.0.0.1:{server.port}".encode())
        assert fly(server.url(), names=names_of(lambda host: ["127.0.0.1"]), **options).failure is Failure.TLS
    with serving(tunnel()) as proxy, serving(answering(hostile.OK)) as server:
        options = {"proxy_url": proxy.url(), "proxy_by_name": True}
        result = fly(server.url(host="good.example"), names=names_of(lambda host: ["127.0.0.1"]), **options)
        assert result.status == 200
        assert proxy.requests[0][0].startswith(f"CONNECT good.example:{server.port}".encode())


def test_the_guard_stands_in_front_of_the_proxy():
    names = names_of(lambda host: ["169.254.169.254"])
    with serving(tunnel()) as proxy:
        result = fly("http://meta.example/", names=names, proxy_url=proxy.url())
        assert (result.failure, result.rule, proxy.connections) == (Failure.BLOCKED, "metadata", 0)
        result = fly("http://10.0.0.1/", proxy_url=proxy.url())
        assert (result.failure, proxy.connections) == (Failure.BLOCKED, 0)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        ("407 Who are you", Failure.OWN_FAULT),
        ("403 No", Failure.OWN_FAULT),
        ("503 Busy", Failure.OWN_FAULT),
        ("502 Bad Gateway", Failure.CONNECTION),
        ("504 Gateway Timeout", Failure.CONNECTION),
    ],
)
def test_whose_fault_a_proxys_refusal_is(status, failure):
    with serving(tunnel(response(status))) as proxy:
        assert fly("http://127.0.0.1:2/", proxy_url=proxy.url()).failure is failure


def test_a_proxy_that_is_down_is_our_own_fault():
    with serving(tunnel()) as proxy:
        url = proxy.url()
    assert fly("http://127.0.0.1:2/", proxy_url=url).failure is Failure.OWN_FAULT
