"""Private networks on the wire: who may be sent there, at which ports, and whose connection is used again."""

import pytest

from delivery.engine.transport.messages import Request
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import fly, flying, land, names_of
from kernel.network.openings import parse_openings
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving


@pytest.mark.parametrize("host", ["127.0.0.1", "inner.example"])
@pytest.mark.parametrize(
    ("opening", "subscriber", "is_sent"),
    [
        ("127.0.0.0/8:{port}", "", True),
        ("127.0.0.0/8:{port}", "acme", False),
        ("acme@127.0.0.0/8:{port}", "acme", True),
        ("acme@127.0.0.0/8:{port}", "bob", False),
        ("acme@127.0.0.0/8:{port}", "", False),
        ("*@127.0.0.0/8:{port}", "bob", True),
        ("*@127.0.0.0/8:1-3", "bob", False),
    ],
)
def test_a_private_receiver_is_reached_by_whom_it_is_opened_for_at_that_port(host, opening, subscriber, is_sent):
    with serving(answering(hostile.OK)) as server:
        openings = parse_openings(opening.format(port=server.port))
        names = names_of(lambda host: ["127.0.0.1"])
        names._allowed = openings
        url, request = server.url(host=host), {"subscriber": subscriber}
        result = fly(url, names=names, request=request, allowed_networks=openings)
        assert server.connections == is_sent
    expected = (None, "", "127.0.0.1") if is_sent else (Failure.BLOCKED, "loopback", "127.0.0.1")
    assert (result.failure, result.rule, result.address) == expected


@pytest.mark.parametrize("url", ["http://8.8.8.8:25/", "https://[2606:4700::1111]:6667/", "http://shop.example:22/"])
def test_no_connection_is_opened_to_a_port_where_no_web_server_lives(url):
    result = fly(url, names=names_of(lambda host: ["8.8.8.8"]))
    assert (result.failure, result.rule, result.connect_ms) == (Failure.BLOCKED, "blocked_port", 0.0)
    assert "8.8.8.8" not in result.detail or "8.8.8.8" in url


def test_no_proxy_is_asked_for_what_we_would_not_call_ourselves():
    names = names_of(lambda host: ["8.8.8.8"] if host == "shop.example" else ["127.0.0.1"])
    names._allowed = parse_openings("acme@127.0.0.0/8")
    with serving(answering(hostile.OK)) as proxy:
        for url in ("http://shop.example:22/", "http://8.8.8.8:22/", "http://inner.example/", "http://127.0.0.1/"):
            result = fly(url, names=names, request={"subscriber": "bob"}, allowed_networks=names._allowed,
                         proxy_url=proxy.url())  # fmt: skip
            assert result.failure is Failure.BLOCKED, url
        assert proxy.connections == 0


def test_nobody_rides_on_a_connection_to_where_only_somebody_else_may_be_sent():
    """Two customers, one name, two addresses: libcurl keeps connections by name and port."""
    openings = parse_openings("acme@127.0.0.1, bob@127.0.0.2")
    names = names_of(lambda host: ["127.0.0.1", "127.0.0.2"])
    names._allowed = openings
    with serving(answering(hostile.OK)) as server, flying(names, allowed_networks=openings, max_in_flight=1) as all:
        seen = []
        for who in ("acme", "bob", "acme"):
            all.add(Request(server.url(host="both.example"), timeout_ms=2000, subscriber=who))
            seen.append(land(all)[0])
        assert len(server.requests) == 2  # both of acme; at the other address nobody listens
    assert [(one.failure, one.address) for one in seen] == [
        (None, "127.0.0.1"),
        (Failure.CONNECTION, "127.0.0.2"),
        (None, "127.0.0.1"),
    ]


def test_an_attempt_through_a_proxy_names_the_receivers_address_and_not_the_proxys():
    names = names_of(lambda host: ["127.0.0.3"])
    with serving(answering(hostile.response("403 No"))) as proxy:
        for url, address in (("http://good.example/", "127.0.0.3"), ("http://127.0.0.4:81/", "127.0.0.4")):
            assert fly(url, names=names, proxy_url=proxy.url()).address == address
