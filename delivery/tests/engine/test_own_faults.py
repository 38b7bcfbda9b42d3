"""What is wrong with us costs no receiver an attempt, does not go on for ever, and is told. On real sockets."""

from __future__ import annotations

import ssl
from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import endpoints, events
from delivery.engine.transport.messages import ClientCertificate, Request
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import fly, flying, land
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return hostile.Certificates(tmp_path_factory.mktemp("own"))


@pytest.fixture
def mutual(certificates):
    context = certificates.server_context("127.0.0.1")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(certificates.ca_file)
    with serving(answering(hostile.OK), tls=context) as server:
        yield server


def mismatched(certificates) -> str:
    """A certificate with another one's key."""
    one, two = (certificates.pem_file("client.example").read_text() for _ in range(2))
    at = one.index("-----BEGIN CERTIFICATE-----")
    return one[:at] + two[two.index("-----BEGIN CERTIFICATE-----") :]


@pytest.mark.parametrize("what", ["mismatched", "junk"])
def test_a_client_certificate_that_cannot_be_used_is_our_fault_and_is_named(certificates, mutual, what):
    junk = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n"
    pem = (mismatched(certificates) if what == "mismatched" else junk).encode()
    with flying() as transfers:
        trusted = certificates.ca_file.read_bytes()
        transfers.add(Request(mutual.url(), client_certificate=ClientCertificate(pem, pem), ca_certificates=trusted))
        (result,) = land(transfers)
    assert (result.failure, result.rule) == (Failure.OWN_FAULT, "client_certificate")
    assert mutual.requests == []


def test_a_missing_ca_file_is_named(tmp_path):
    with serving(hostile.slow_tls) as server:
        result = fly(f"https://127.0.0.1:{server.port}/", ca_file=str(tmp_path / "none.pem"))
    assert (result.failure, result.rule) == (Failure.OWN_FAULT, "ca_file")


def due_again() -> None:
    EndpointHealth.objects.update(throttled_until=None)
    Delivery.objects.filter(state="failed").update(next_attempt_at=timezone.now())


def test_an_endpoint_whose_certificate_cannot_be_used_is_held_after_five_tries_and_resumed(
    make_endpoint, certificates, mutual, drain
):
    values = {"ca_certificate": certificates.ca_file.read_text(), "max_attempts": 1}
    endpoint = make_endpoint(mutual.url(), client_certificate=mismatched(certificates), **values)
    events.record("a.b", {}, subscriber="acme")
    for _ in range(8):
        due_again()
        drain()
    endpoint.refresh_from_db()
    assert endpoint.attention_at is not None
    assert "client certificate" in endpoint.hold_reason
    assert Attempt.objects.filter(outcome="own_fault").count() == 5
    assert Delivery.objects.get(event__type="a.b").attempt_count == 0  # held, and nothing is charged
    endpoints.update(endpoint, {"client_certificate": certificates.pem_file("client.example").read_text()}, actor="t")
    endpoints.resume(endpoint, actor="t")
    due_again()
    drain()
    assert Delivery.objects.get(event__type="a.b").state == "delivered"
    assert EndpointHealth.objects.get(pk=endpoint.pk).own_fault_count == 0


def test_what_is_wrong_with_us_for_ten_minutes_opens_the_breaker_and_its_probe_closes_it(
    make_endpoint, sink, monkeypatch, drain
):
    endpoint = make_endpoint(sink.url + "/ok", max_attempts=1)
    events.record("a.b", {}, subscriber="acme")
    no_sockets = [True]
    real = __import__("socket").socket

    def opened(*arguments, **more):
        if no_sockets[0]:
            raise OSError(24, "Too many open files")
        return real(*arguments, **more)

    monkeypatch.setattr("delivery.engine.transport.handles.socket.socket", opened)
    drain()
    health = EndpointHealth.objects.get(pk=endpoint.pk)
    assert (health.own_fault_kind, health.own_fault_count, health.breaker_state) == ("open_files", 1, "closed")
    EndpointHealth.objects.update(own_fault_since=timezone.now() - timedelta(minutes=11))
    due_again()
    drain()
    health.refresh_from_db()
    assert (health.own_fault_count, health.breaker_state) == (2, "open")
    due_again()
    drain()
    assert Attempt.objects.count() == 2  # nothing goes out but probes
    no_sockets[0] = False
    EndpointHealth.objects.update(probe_at=timezone.now())
    due_again()
    drain()
    health.refresh_from_db()
    assert (health.own_fault_count, health.breaker_state) == (0, "closed")
    assert Delivery.objects.get().state == "delivered"


def test_settings_that_cannot_be_read_are_counted_as_our_fault(make_endpoint, drain):
    endpoint = make_endpoint()
    Endpoint.objects.filter(pk=endpoint.pk).update(body_rule={"nonsense": "x"})
    events.record("a.b", {}, subscriber="acme")
    drain()
    health = EndpointHealth.objects.get(pk=endpoint.pk)
    assert (health.own_fault_kind, health.own_fault_count) == ("unreadable_settings", 1)
    assert health.throttled_until is not None and health.own_fault_since is not None
