"""What operators open beside the public internet: where, at which ports, for whom; and ports where no web server is."""

import re
from ipaddress import ip_network

import pytest

from kernel.network.addresses import AddressRefused, check_url, is_open_to_somebody, is_public, judge
from kernel.network.openings import EVERYBODY, NEVER_HTTP, Opening, parse_openings


@pytest.mark.parametrize(
    ("entry", "network", "ports", "who"),
    [
        ("10.0.0.0/8", "10.0.0.0/8", None, ""),
        ("10.0.0.7", "10.0.0.7/32", None, ""),
        ("10.0.0.0/8:8443", "10.0.0.0/8", range(8443, 8444), ""),
        ("10.0.0.7:8000-8099", "10.0.0.7/32", range(8000, 8100), ""),
        ("[fd00::]/8:443", "fd00::/8", range(443, 444), ""),
        ("[fd00::7]:443", "fd00::7/128", range(443, 444), ""),
        ("fd00::/8", "fd00::/8", None, ""),
        ("fd00::7:443", "fd00::7:443/128", None, ""),
        ("acme@10.0.0.0/8:8443", "10.0.0.0/8", range(8443, 8444), "acme"),
        ("a@b.example@10.0.0.0/8", "10.0.0.0/8", None, "a@b.example"),
        ("acme%2C%20Ltd@[fd00::]/8:443", "fd00::/8", range(443, 444), "acme, Ltd"),
        ("*@127.0.0.0/8", "127.0.0.0/8", None, EVERYBODY),
    ],
)
def test_an_entry_names_a_network_and_perhaps_ports_and_a_subscriber(entry, network, ports, who):
    assert parse_openings(entry) == (Opening(ip_network(network), ports, who),)


@pytest.mark.parametrize(
    "entry",
    ["here", "10.0.0.0/99", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:70000", "10.0.0.0/8:90-80", "10.0.0.0/8:80-",
     "fd00::/8:443", "[fd00::/8", "@10.0.0.0/8", "[]:80", "10.0.0.0/8:https"],
)  # fmt: skip
def test_an_entry_that_cannot_be_read_is_named_with_how_to_write_it(entry):
    with pytest.raises(ValueError, match=r"\[fd00::\]/8:443") as caught:
        parse_openings([entry])
    assert repr(entry) in str(caught.value)


def allowed(entries, address, port, subscriber=""):
    return judge(address, parse_openings(entries), port=port, subscriber=subscriber).allowed


def test_a_plain_network_opens_what_may_speak_http_to_the_operators_own_endpoints_only():
    assert allowed("10.0.0.0/8", "10.0.0.7", 8443) and allowed("10.0.0.0/8", "::ffff:10.0.0.7", 80)
    assert not allowed("10.0.0.0/8", "10.0.0.7", 22)
    assert not allowed("10.0.0.0/8", "10.0.0.7", 8443, "acme")
    assert not allowed("10.0.0.0/8", "11.0.0.7", 22)


def test_a_named_port_opens_that_port_alone_whatever_speaks_there():
    assert allowed("10.0.0.0/8:6000", "10.0.0.7", 6000)
    assert not allowed("10.0.0.0/8:6000", "10.0.0.7", 6001)
    assert not allowed("10.0.0.0/8:6000", "10.0.0.7", 443)


def test_a_subscribers_opening_serves_that_subscriber_and_a_star_everybody():
    entries = "acme@10.1.0.0/16:443, *@10.2.0.0/16:443"
    assert [allowed(entries, "10.1.0.7", 443, who) for who in ("acme", "bob", "", "*")] == [True, False, False, False]
    assert [allowed(entries, "10.2.0.7", 443, who) for who in ("acme", "bob", "")] == [True, True, True]


def test_an_opening_never_serves_a_metadata_service_but_by_its_one_address():
    assert not allowed("acme@169.254.0.0/16:80", "169.254.169.254", 80, "acme")
    assert allowed("acme@169.254.169.254:80", "169.254.169.254", 80, "acme")
    assert not allowed("acme@169.254.169.254:80", "169.254.169.254", 80)


@pytest.mark.parametrize("port", [1, 22, 25, 110, 143, 587, 2049, 5060, 6000, 6667, 10080])
def test_at_a_public_address_no_port_is_called_where_no_web_server_lives(port):
    verdict = judge("8.8.8.8", port=port)
    assert (verdict.allowed, verdict.rule, str(port) in verdict.explanation) == (False, "blocked_port", True)
    for url in (f"https://8.8.8.8:{port}/", f"http://shop.example:{port}/"):
        with pytest.raises(AddressRefused, match=str(port)) as caught:
            check_url(url)
        assert caught.value.code == "blocked_port"
    assert judge("8.8.8.8", parse_openings(f"8.8.8.8:{port}"), port=port).allowed  # unless an operator knows better


def test_the_ports_that_people_serve_http_at_are_not_among_them():
    assert not NEVER_HTTP & {80, 443, 3000, 5000, 8000, 8080, 8081, 8443, 8888, 9000, 9443}
    assert len(NEVER_HTTP) == 82


def test_a_name_is_judged_by_port_and_subscriber_once_it_leads_somewhere():
    entries = parse_openings("acme@10.0.0.0/8:6000")

    def check(subscriber, address="10.0.0.7"):
        resolve = lambda host: [address] if address else []  # noqa: E731
        return check_url("http://x.example:6000/", allowed_networks=entries, subscriber=subscriber, resolve=resolve)

    assert check("acme").port == 6000 and check("acme", None).port == 6000
    for subscriber, address, code in (("bob", "10.0.0.7", "not_public"), ("bob", None, "blocked_port")):
        with pytest.raises(AddressRefused) as caught:
            check(subscriber, address)
        assert caught.value.code == code


def test_what_is_open_to_somebody_is_kept_of_a_name():
    entries = parse_openings("acme@10.0.0.0/8:443")
    seen = [is_open_to_somebody(address, entries) for address in ("10.0.0.7", "8.8.8.8", "127.0.0.1", "nonsense")]
    assert seen == [True, True, False, False]
    assert [is_public(address) for address in ("10.0.0.7", "8.8.8.8", "::ffff:10.0.0.7")] == [False, True, False]


@pytest.mark.parametrize("subscriber", ["", "acme", "acme, 100% Ltd@home"])
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:9000/",
        "http://10.1.2.3/",
        "https://[::1]/",
        "http://[::ffff:10.1.2.3]:8080/",
        "http://169.254.169.254/",
    ],
)
def test_the_entry_that_a_refusal_names_opens_this_receiver_to_its_subscriber_and_to_nobody_else(url, subscriber):
    with pytest.raises(AddressRefused) as refused:
        check_url(url, subscriber=subscriber)
    entry = re.search(r"must add (\S+) to DELIVERY_ALLOWED_NETWORKS", refused.value.detail)[1]
    opened = parse_openings(entry)
    assert check_url(url, allowed_networks=opened, subscriber=subscriber).url
    assert [(one.network.num_addresses, len(one.ports)) for one in opened] == [(1, 1)]
    with pytest.raises(AddressRefused):
        check_url(url, allowed_networks=opened, subscriber="another")


def test_what_a_name_leads_to_is_not_told_with_how_to_open_it():
    with pytest.raises(AddressRefused) as refused:
        check_url("https://db.corp.example:8443/", subscriber="acme", resolve=lambda host: ["10.0.0.7"])
    assert "its network (written as acme@10.20.0.0/16:8443)" in refused.value.detail
    assert "10.0.0.7" not in refused.value.detail
