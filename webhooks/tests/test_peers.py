"""The caller's address: forwarded headers count only through trusted proxies."""

import ipaddress

import pytest
from django.test import RequestFactory

from webhooks.peers import client_address


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.7", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "198.51.100.7, <script>", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("::ffff:203.0.113.9", "", "203.0.113.9"),
        ("fe80::1%eth0", "", "fe80::1"),
        ("", "198.51.100.7", None),
        ("unix:", "", None),
    ],
)
def test_client_address(settings, peer, forwarded, address):
    settings.TRUSTED_PROXIES = [ipaddress.ip_network("10.0.0.0/8")]
    request = RequestFactory().post("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded)
    assert client_address(request) == address
