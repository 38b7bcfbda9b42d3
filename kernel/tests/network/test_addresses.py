"""The guard against every address family trick of the research page, and the strict URL grammar."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.network.addresses import AddressRefused, check_url, judge, parse_networks, split_url
from kernel.network.openings import parse_openings

BLOCKED = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("::1", "loopback"),
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "unspecified"),
    ("::", "unspecified"),
    ("10.1.2.3", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("fc00::1", "private"),
    ("fd12:3456::1", "private"),
    ("fec0::1", "private"),
    ("169.254.1.1", "link_local"),
    ("fe80::1", "link_local"),
    ("fe80::1%eth0", "link_local"),
    ("169.254.169.254", "metadata"),
    ("169.254.170.2", "metadata"),
    ("168.63.129.16", "metadata"),
    ("100.100.100.200", "metadata"),
    ("fd00:ec2::254", "metadata"),
    ("100.64.0.1", "cgnat"),
    ("100.127.255.255", "cgnat"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("ff02::1", "multicast"),
    ("192.0.2.1", "documentation"),
    ("198.51.100.1", "documentation"),
    ("203.0.113.1", "documentation"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation"),
    ("198.18.0.1", "benchmarking"),
    ("255.255.255.255", "reserved"),
    ("240.0.0.1", "reserved"),
    ("192.0.0.8", "reserved"),
    ("5f00::1", "reserved"),
    ("4000::1", "reserved"),
    ("100::1", "reserved"),
    ("2001:20::1", "reserved"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::ffff:169.254.169.254", "metadata"),
    ("::ffff:0:127.0.0.1", "translated"),
    ("::127.0.0.1", "translated"),
    ("64:ff9b::127.0.0.1", "nat64"),
    ("64:ff9b::8.8.8.8", "nat64"),
    ("64:ff9b:1::1", "nat64"),
    ("2002:7f00:1::", "6to4"),
    ("2001:0:4136:e378::1", "teredo"),
    ("nonsense", "not_an_address"),
    ("2130706433", "not_an_address"),
]


@pytest.mark.parametrize(("address", "rule"), BLOCKED)
def test_blocked(address, rule):
    verdict = judge(address, port=443)
    assert (verdict.allowed, verdict.rule) == (False, rule)
    assert verdict.explanation.endswith(".")


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00::1"])
def test_public(address):
    assert judge(address, port=443).allowed


def test_a_mapped_public_address_counts_as_the_v4_that_would_be_dialled():
    assert judge("::ffff:8.8.8.8", port=443).allowed


def test_allow_list_opens_networks_but_metadata_only_by_exact_address():
    wide = parse_openings("10.0.0.0/8, 0.0.0.0/0 ::1/128")
    assert judge("10.0.0.7", wide, port=443).rule == "allow_list"
    assert judge("::ffff:10.0.0.7", wide, port=443).allowed
    assert judge("::1", wide, port=443).allowed
    assert not judge("169.254.169.254", wide, port=443).allowed
    assert judge("169.254.169.254", parse_openings("169.254.169.254"), port=443).allowed
    assert not judge("10.0.0.7", parse_openings("192.168.0.0/16"), port=443).allowed


def test_a_wrong_network_is_named():
    with pytest.raises(ValueError, match=r"10\.0\.0"):
        parse_networks("10.0.0/99")


@given(st.integers(0, 2**32 - 1))
def test_no_v4_that_python_calls_private_passes(number):
    address = IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        assert not judge(address, port=443).allowed


@given(st.integers(0, 2**128 - 1))
def test_no_v6_outside_of_2000_passes(number):
    address = IPv6Address(number)
    verdict = judge(address, port=443)
    if verdict.allowed:
        assert address in IPv6Network("2000::/3") or address.ipv4_mapped


@given(st.integers(0, 2**32 - 1))
def test_wrapping_never_opens_what_is_closed(number):
    v4 = IPv4Address(number)
    if not judge(v4, port=443).allowed:
        for wrapped in (
            f"::ffff:{v4}",
            f"64:ff9b::{v4}",
            f"::{v4}",
            f"::ffff:0:{v4}",
            str(IPv6Address((0x2002 << 112) | (number << 80))),
        ):
            assert not judge(str(ip_address(wrapped)), port=443).allowed


REFUSED_URLS = [
    ("http://2130706433/", "odd_literal"),
    ("http://0x7f.1/", "odd_literal"),
    ("http://0x7f000001/", "odd_literal"),
    ("http://0177.0.0.1/", "odd_literal"),
    ("http://127.1/", "odd_literal"),
    ("http://127.0.0.01/", "odd_literal"),
    ("http://0/", "odd_literal"),
    ("http://256.1.1.1/", "odd_literal"),
    ("http://1.2.3.4.5/", "odd_literal"),
    ("http://①②⑦.⓪.⓪.①/", "odd_literal"),
    ("http://１２７.0.0.1/", "odd_literal"),
    ("http://127。0。0。1/", "odd_literal"),
    ("http://[fe80::1%25eth0]/", "odd_literal"),
    ("http://[::1/", "bad_host"),
    ("http://[zz::]/", "bad_host"),
    ("http://127.0.0.1\\@example.com/", "backslash"),
    ("http://example.com\\.evil/", "backslash"),
    ("http://user:pass@example.com/", "userinfo"),
    ("http://example.com@127.0.0.1/", "userinfo"),
    ("ftp://example.com/", "scheme"),
    ("file:///etc/passwd", "scheme"),
    ("javascript://example.com/%0aalert(1)", "scheme"),
    ("javascript:alert(1)", "not_a_url"),
    ("//example.com/", "not_a_url"),
    ("example.com", "not_a_url"),
    ("", "not_a_url"),
    ("http:///path", "bad_host"),
    ("http://", "bad_host"),
    ("http://exa mple.com/", "control_character"),
    ("http://example.com/\r\nX: y", "control_character"),
    ("http://example.com/\x00", "control_character"),
    ("http://example.com/a\u2028b", "control_character"),
    (" http://example.com/", "control_character"),
    ("http://example.com:0/", "bad_port"),
    ("http://example.com:70000/", "bad_port"),
    ("http://example.com:８０/", "bad_host"),
    ("http://example.com:80:90/", "bad_host"),
    ("http://a..b/", "bad_host"),
    ("http://-a.example/", "bad_host"),
    ("http://exa%6dple.com/", "bad_host"),
    ("http://example.com/" + "a" * 9000, "too_long"),
    ("http://xn--/", "bad_host"),
]


@pytest.mark.parametrize(("url", "code"), REFUSED_URLS)
def test_refused_urls(url, code):
    with pytest.raises(AddressRefused) as caught:
        check_url(url)
    assert caught.value.code == code
    assert caught.value.detail


def test_blocked_literals_and_localhost_name_the_setting():
    for url in ("http://127.0.0.1:3000/", "http://[::1]/", "http://localhost:3000/hook", "http://a.localhost/"):
        with pytest.raises(AddressRefused) as caught:
            check_url(url)
        assert caught.value.code == "loopback"
        assert "DELIVERY_ALLOWED_NETWORKS" in caught.value.detail
    assert check_url("http://localhost:3000/", allowed_networks=parse_openings("127.0.0.0/8")).port == 3000


def test_good_urls_come_back_as_ascii():
    assert (
        split_url("https://Zürich.example/ä?q=Łódź").url == "https://xn--zrich-kva.example/%C3%A4?q=%C5%81%C3%B3d%C5%BA"
    )
    assert split_url("HTTP://EXAMPLE.com:80").url == "http://example.com/"
    assert split_url("https://example.com.:8443/a/../b?x=1#frag").url == "https://example.com:8443/a/../b?x=1"
    assert split_url("https://example.com?x=1").url == "https://example.com/?x=1"
    target = split_url("http://[2606:4700:0::1111]:8080/x")
    assert (target.literal, target.port) == ("2606:4700::1111", 8080)
    assert target.url == "http://[2606:4700::1111]:8080/x"


def test_ports_https_and_resolving_at_save():
    with pytest.raises(AddressRefused) as caught:
        check_url("http://example.com/", require_https=True)
    assert caught.value.code == "https_only"
    with pytest.raises(AddressRefused) as caught:
        check_url("http://inner.example/", resolve=lambda host: ["10.0.0.1", "169.254.169.254"])
    assert (caught.value.code, "10.0.0.1" in caught.value.detail) == ("not_public", False)
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1") as caught:
        check_url("http://inner.example/", resolve=lambda host: ["10.0.0.1"], tells_addresses=True)
    assert caught.value.code == "private"
    assert check_url("http://mixed.example/", resolve=lambda host: ["10.0.0.1", "8.8.8.8"])
    assert check_url("http://notyet.example/", resolve=lambda host: [])


@given(st.text(max_size=60))
def test_any_text_is_refused_or_read_and_reading_again_changes_nothing(text):
    try:
        target = split_url("http://" + text)
    except AddressRefused:
        return
    assert target.url.isascii()
    assert split_url(target.url) == target
