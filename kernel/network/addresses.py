"""The address guard: which machines we may call, and why not.

Pure: strings in, verdicts out. The same rules are applied three times: when an endpoint is saved (`check_url`),
when its name has been resolved, and when the socket is opened (`judge`). What is opened beside them, where and for
whom, is `kernel.network.openings`' to say. Never trust a string where the address
really dialled is known, and never ask `ipaddress.is_global`: it lets NAT64, 6to4, multicast and metadata pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import idna

from kernel.network.openings import NEVER_HTTP, Address, Network, Openings, entry_for

MAX_URL = 8_000
ALLOW_HINT = (
    "If this receiver is yours (a listener on localhost or in your own network), whoever runs Roundtrip must add "
    "{entry} to DELIVERY_ALLOWED_NETWORKS and restart."
)

# First match wins, so the narrow rules stand before the wide ones.
_RULES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "metadata",
        "a cloud metadata service",
        (
            "169.254.169.254/32",
            "169.254.169.253/32",
            "169.254.170.2/32",
            "169.254.170.23/32",
            "168.63.129.16/32",
            "100.100.100.200/32",
            "192.0.0.192/32",
            "fd00:ec2::254/128",
            "fd20:ce::254/128",
            "fe80::a9fe:a9fe/128",
        ),
    ),
    ("loopback", "this machine itself", ("127.0.0.0/8", "::1/128")),
    ("unspecified", "'this network', which leads back to this machine", ("0.0.0.0/8", "::/128")),
    (
        "private",
        "a private network",
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    ),
    ("link_local", "a link-local network", ("169.254.0.0/16", "fe80::/10")),
    ("cgnat", "a carrier's shared network (CGNAT)", ("100.64.0.0/10",)),
    ("multicast", "multicast", ("224.0.0.0/4", "ff00::/8")),
    (
        "documentation",
        "reserved for documentation",
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    ),
    ("benchmarking", "reserved for benchmarks", ("198.18.0.0/15", "2001:2::/48")),
    ("nat64", "an IPv4 address wrapped for NAT64", ("64:ff9b::/96", "64:ff9b:1::/48")),
    ("6to4", "an IPv4 address wrapped for 6to4", ("2002::/16", "192.88.99.0/24")),
    ("teredo", "an IPv4 address wrapped for Teredo", ("2001::/32",)),
    ("translated", "an IPv4 address wrapped in IPv6", ("::/96", "::ffff:0:0:0/96")),
    (
        "reserved",
        "reserved by IANA",
        (
            "192.0.0.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.175.48.0/24",
            "240.0.0.0/4",
            "2001::/23",
            "2620:4f:8000::/48",
        ),
    ),
)
_TABLE: tuple[tuple[Network, str, str], ...] = tuple(
    (ip_network(text), rule, words) for rule, words, networks in _RULES for text in networks
)
_GLOBAL_V6 = IPv6Network("2000::/3")


@dataclass(frozen=True, slots=True)
class Ruling:
    """May this address be dialled? `rule` is a stable word, `explanation` a sentence for an operator."""

    allowed: bool
    rule: str
    explanation: str


_PUBLIC = Ruling(True, "public", "A public address.")
_LISTED = Ruling(True, "allow_list", "Opened by the operators.")
BLOCKED_PORT = "blocked_port"


class AddressRefused(ValueError):
    """We will not call this URL. `code` is the reason word, `detail` says why and what to do."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads. `literal` is set where the host is an address and needs no lookup.

    `origin` is scheme, host and port; `path_and_query` is what is asked of it, as it was written (RFC 9112 §3.2.1).
    """

    url: str
    scheme: str
    host: str
    port: int
    literal: str | None
    origin: str
    path_and_query: str


def parse_networks(value: str | Iterable[str]) -> tuple[Network, ...]:
    """Networks from a setting: a list, or one string with commas. Raises ValueError naming the bad entry."""
    parts = value.replace(",", " ").split() if isinstance(value, str) else list(value)
    return tuple(ip_network(part.strip(), strict=False) for part in parts)


def judge(address: str | Address, allowed: Openings = (), *, port: int, subscriber: str = "") -> Ruling:
    """May this address be dialled at this port, for a request of this subscriber ("": the operators' own)?

    `allowed` opens private networks; metadata services only when named exactly.
    """
    found, rule, words = _class_of(str(address))
    if not rule and port not in NEVER_HTTP:
        return _PUBLIC
    if found is None:
        return Ruling(False, rule, words)
    exactly = rule == "metadata"
    if any(one.serves(port, subscriber) and one.holds(found, exactly=exactly) for one in allowed):
        return _LISTED
    if not rule:
        return Ruling(False, BLOCKED_PORT, blocked_port(port))
    return Ruling(False, rule, f"{found} is not a public address: it is {words}.")


def is_public(address: str | Address) -> bool:
    return not _class_of(str(address))[1]


def is_open_to_somebody(address: str | Address, allowed: Openings) -> bool:
    """Whether any request at all may be sent there: what is resolved once serves them all."""
    found, rule, _ = _class_of(str(address))
    return not rule or (found is not None and any(one.holds(found, exactly=rule == "metadata") for one in allowed))


def blocked_port(port: int) -> str:
    return f"No web server answers at port {port}: other protocols live there. Choose another port for the receiver."


@lru_cache(maxsize=8192)
def _class_of(text: str) -> tuple[Address | None, str, str]:
    """The address, its rule ("" for a public one) and what the rule says of it."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None, "not_an_address", f"{text[:60]!r} is not an IP address."
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address, *_rule_of(address)


def _rule_of(address: Address) -> tuple[str, str]:
    for network, rule, words in _TABLE:
        if address.version == network.version and address in network:
            return rule, words
    if address.version == 6 and address not in _GLOBAL_V6:
        return "reserved", "outside of the IPv6 space in use (2000::/3)"
    return "", ""


# Strict on purpose: whatever two URL parsers could read differently is refused, not interpreted.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<netloc>[^/?#]*)(?P<rest>[^#]*)(?P<fragment>#.*)?", re.S)
_NETLOC = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(?::(?P<port>[0-9]{0,5}))?")
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NUMBER_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTTED_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_BAD_CHARACTER = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=2048)
def split_url(url: str) -> Target:
    """Read a URL in the one strict grammar that we accept; the result's `url` is pure ASCII.

    Raises AddressRefused: `too_long`, `control_character`, `backslash`, `not_a_url`, `scheme`, `userinfo`,
    `bad_host`, `odd_literal`, `bad_port`.
    """
    _refuse_bad_text(url)
    match = _URL.fullmatch(url)
    if match is None:
        raise AddressRefused("not_a_url", "This is not a full URL. Start it with https:// and a host name.")
    scheme = match["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        raise AddressRefused("scheme", f"Only http and https can be called, not {scheme[:20]!r}.")
    if "@" in match["netloc"]:
        raise AddressRefused("userinfo", "Take the user name and password out of the URL; use a header instead.")
    netloc = _NETLOC.fullmatch(match["netloc"])
    if netloc is None or not netloc["host"]:
        raise AddressRefused("bad_host", "The host of this URL cannot be read. Check brackets and colons.")
    host, literal = _host_of(netloc["host"])
    port = _port_of(netloc["port"], scheme)
    shown = f"[{host}]" if literal and ":" in host else host
    suffix = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
    rest = _ascii(match["rest"] if match["rest"].startswith("/") else "/" + match["rest"])
    origin = f"{scheme}://{shown}{suffix}"
    return Target(origin + rest, scheme, host, port, literal, origin, rest)


def _refuse_bad_text(url: str) -> None:
    if len(url) > MAX_URL:
        raise AddressRefused("too_long", f"A URL may have at most {MAX_URL:,} characters.")
    if _BAD_CHARACTER.search(url):
        raise AddressRefused("control_character", "The URL holds a space or control character; percent-encode it.")
    if "\\" in url:
        raise AddressRefused("backslash", "The URL holds a backslash; programs disagree on what it means. Use %5C.")


def _ascii(rest: str) -> str:
    """Percent-encode what is not ASCII (UTF-8, RFC 3987 §3.1), leave the rest as it was written."""
    try:
        return "".join(c if c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in rest)
    except UnicodeEncodeError:
        raise AddressRefused("control_character", "The URL holds half a character (a lone surrogate).") from None


def _host_of(text: str) -> tuple[str, str | None]:
    """(host, literal address or None), lower case, IDN in its xn-- form, without a final dot."""
    if text.startswith("["):
        return _ipv6_of(text[1:-1])
    host = _idna(text) if not text.isascii() else text.lower()
    host = host.removesuffix(".")
    if not _HOST.fullmatch(host):
        raise AddressRefused("bad_host", "The host name of this URL is not a valid one.")
    if not _NUMBER_LABEL.fullmatch(host.rpartition(".")[2]):
        return host, None
    # WHATWG URL §3.5 "ends in a number": such a host is an IPv4 address or nothing, and getaddrinfo would read
    # 2130706433, 0x7f.1, 0177.0.0.1 and ①②⑦.⓪.⓪.① all as this machine.
    if host != text.removesuffix(".") or not _DOTTED_QUAD.fullmatch(host):
        raise AddressRefused("odd_literal", "Write an IPv4 address as four plain decimal numbers, such as 192.0.2.7.")
    try:
        return host, str(IPv4Address(host))
    except ValueError:
        raise AddressRefused("odd_literal", "The IPv4 address in this URL has a number over 255.") from None


def _ipv6_of(text: str) -> tuple[str, str]:
    if not text.isascii() or "%" in text:
        raise AddressRefused("odd_literal", "An IPv6 address in a URL is plain hexadecimal, without a zone.")
    try:
        address = str(IPv6Address(text))
    except ValueError:
        raise AddressRefused("bad_host", "What stands in the brackets is not an IPv6 address.") from None
    return address, address


def _idna(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        raise AddressRefused("bad_host", "The host name has characters that no domain can have.") from None


def _port_of(text: str | None, scheme: str) -> int:
    if not text:
        return _DEFAULT_PORTS[scheme]
    port = int(text)
    if not 1 <= port <= 65535:
        raise AddressRefused("bad_port", "A port is a number from 1 to 65535.")
    return port


def check_url(
    url: str,
    *,
    allowed_networks: Openings = (),
    subscriber: str = "",
    require_https: bool = False,
    resolve: Callable[[str], Iterable[str]] | None = None,
    tells_addresses: bool = False,
) -> Target:
    """May an endpoint of this subscriber with this URL be saved? Returns where it leads; raises AddressRefused.

    `resolve(host)` may be passed to judge the name's present addresses too; an empty answer passes, since the name
    may exist later and is judged again at every call. Where a name of ours leads is told to operators only
    (`tells_addresses`). Reasons: those of `split_url`, `https_only`, `blocked_port`, `not_public` for a name, and for
    an address the rule word.
    """
    target = split_url(url)
    if require_https and target.scheme != "https":
        raise AddressRefused("https_only", "Use https:// here: plain http would show payload and signature to others.")
    addresses = _addresses_of(target, resolve)
    verdicts = [judge(address, allowed_networks, port=target.port, subscriber=subscriber) for address in addresses]
    if (
        not verdicts
        and target.port in NEVER_HTTP
        and not any(one.serves(target.port, subscriber) for one in allowed_networks)
    ):
        raise AddressRefused(BLOCKED_PORT, blocked_port(target.port))
    if verdicts and not any(verdict.allowed for verdict in verdicts):
        tells = tells_addresses or _is_plain(target)
        raise _refusal(target, verdicts[0], addresses[0] if tells else "", subscriber)
    return target


def _refusal(target: Target, verdict: Ruling, told: str, subscriber: str) -> AddressRefused:
    """`told` is the address that may be named to whoever asks; "" for none."""
    if verdict.rule == BLOCKED_PORT:
        return AddressRefused(BLOCKED_PORT, verdict.explanation)
    address = _class_of(told)[0]
    if address is not None:
        hint = ALLOW_HINT.format(entry=entry_for(address, target.port, subscriber))
        return AddressRefused(verdict.rule, f"{verdict.explanation} {hint}")
    hint = ALLOW_HINT.format(entry=f"its network (written as {entry_for('10.20.0.0/16', target.port, subscriber)})")
    return AddressRefused("not_public", f"{target.host} leads to an address that may not be called. {hint}")


def _is_plain(target: Target) -> bool:
    """Its address stands in the URL itself, or is the one that everybody's localhost has."""
    return target.literal is not None or target.host == "localhost" or target.host.endswith(".localhost")


def _addresses_of(target: Target, resolve: Callable[[str], Iterable[str]] | None) -> list[str]:
    if target.literal:
        return [target.literal]
    if target.host == "localhost" or target.host.endswith(".localhost"):
        return ["127.0.0.1", "::1"]  # RFC 6761 §6.3
    return list(resolve(target.host)) if resolve else []
