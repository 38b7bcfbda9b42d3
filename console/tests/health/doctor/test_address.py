"""What PUBLIC_BASE_URL leads to, asked over real sockets."""

from console.health.doctor import address
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving


def words_at(settings, base):
    settings.PUBLIC_BASE_URL = base
    found = next(iter(address.public_address()))
    assert not found.is_ok
    return found.words


def test_what_is_wrong_with_the_public_address_is_told(settings, tmp_path):
    assert "with its scheme" in words_at(settings, "jobs.example:8000")
    assert "with its scheme" in words_at(settings, "ftp://jobs.example")
    assert "refused" in words_at(settings, "http://127.0.0.1:9")
    with serving(answering(hostile.OK)) as server:
        assert "not as Roundtrip" in words_at(settings, f"http://127.0.0.1:{server.port}")
    certificates = hostile.Certificates(tmp_path)
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as server:
        words = words_at(settings, f"https://127.0.0.1:{server.port}")
    assert "TLS fails (" in words and "certificate" in words
    moved = hostile.response("301 Moved", "Location: https://jobs.example/healthz")
    with serving(answering(moved)) as server:
        assert "is it https://jobs.example?" in words_at(settings, f"http://127.0.0.1:{server.port}")


def test_a_plain_server_behind_https_is_told(settings):
    plain = hostile.response("400 Bad Request")
    with serving(lambda connection: connection.send(plain)) as server:
        assert "no TLS is spoken there" in words_at(settings, f"https://127.0.0.1:{server.port}")


def test_without_an_address_providers_cannot_call_back(settings):
    assert "PUBLIC_BASE_URL is not set" in words_at(settings, "")


def test_the_sandbox_receiver_is_asked_only_where_there_is_one(settings):
    settings.SANDBOX_RECEIVER_URL = ""
    assert list(address.sandbox_receiver()) == []
    settings.SANDBOX_RECEIVER_URL = "http://127.0.0.1:9"
    (found,) = address.sandbox_receiver()
    assert not found.is_ok and "Start it: python -m sandbox" in found.words
