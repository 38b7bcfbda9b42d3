"""What only a proxy may say counts only from a trusted proxy's address, over HTTP and over websockets."""

import ipaddress

import pytest
from asgiref.sync import async_to_sync
from django.core.handlers.asgi import ASGIRequest

from kernel.network.peers import client_address
from kernel.web.forwarded import ForwardedByProxies

PROXYS = [
    (b"x-forwarded-proto", b"https"),
    (b"X-Forwarded-For", b"198.51.100.7"),
    (b"x-forwarded-host", b"jobs.example.com"),
    (b"x_forwarded_proto", b"https"),
    (b"forwarded", b"for=198.51.100.7"),
    (b"x-real-ip", b"198.51.100.7"),
]
OWN = [(b"host", b"x"), (b"x-correlation-id", b"abcdefgh")]


@pytest.fixture(autouse=True)
def proxies(settings):
    settings.TRUSTED_PROXIES = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")


def seen(client, kind="http"):
    """The scope that comes out for a request of this peer."""
    got = []

    async def app(scope, receive, send):
        got.append(scope)

    scope = {"type": kind, "method": "GET", "path": "/", "query_string": b"", "client": client}
    async_to_sync(ForwardedByProxies(app))({**scope, "headers": [*OWN, *PROXYS]}, None, None)
    return got[0]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("client", [("203.0.113.9", 5000), ("2001:db8::1", 5000), None, ("", 0), ("unix:", None)])
def test_a_strangers_word_is_taken_off(client, kind):
    assert seen(client, kind)["headers"] == OWN


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("client", [("10.1.2.3", 5000), ("::ffff:10.1.2.3", 5000), ("fd00::5", 5000)])
def test_a_trusted_proxys_word_stays(client, kind):
    assert seen(client, kind)["headers"] == [*OWN, *PROXYS]


def test_without_proxies_nobodys_word_counts(settings):
    settings.TRUSTED_PROXIES = []
    assert seen(("10.1.2.3", 5000))["headers"] == OWN


def test_only_through_a_trusted_proxy_is_a_request_secure_and_its_caller_another():
    stranger, proxied = (ASGIRequest(seen((peer, 5000)), None) for peer in ("203.0.113.9", "10.1.2.3"))
    assert (stranger.is_secure(), client_address(stranger)) == (False, "203.0.113.9")
    assert (proxied.is_secure(), client_address(proxied)) == (True, "198.51.100.7")
