"""What an operator opens beside the public internet: networks, at which ports, for whose requests. Pure.

`10.20.0.0/16:8443` serves the operators' own endpoints at that port; `acme@10.20.0.7/32:8000-8099` the endpoints of
subscriber acme; `*@…` everybody's. Whoever shares a network's services with customers says so, network by network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from urllib.parse import quote, unquote

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERYBODY = "*"
OPERATORS = ""
ALL_PORTS = range(1, 65536)

# WHATWG Fetch §2.9 "Port blocking": where no web server answers, and whose protocols take an HTTP request for commands.
NEVER_HTTP = frozenset(
    {1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95}
    | {101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179}
    | {389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587}
    | {601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061}
    | {6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
_ENTRY = re.compile(
    r"(?:(?P<who>.*)@)?(?:\[(?P<six>[^\[\]]*)\](?P<prefix>/[0-9]+)?|(?P<plain>[^\[\]]*?))(?P<ports>:[0-9-]*)?"
)
_PORTS = re.compile(r":([0-9]{1,5})(?:-([0-9]{1,5}))?")
HOW = "write 10.20.0.0/16, 10.20.0.0/16:8443, [fd00::]/8:443 or acme@10.20.0.7/32:8000-8099"


@dataclass(frozen=True, slots=True)
class Opening:
    """`ports` None: all that may speak HTTP. `who`: a subscriber, EVERYBODY, or the OPERATORS' own."""

    network: Network
    ports: range | None = None
    who: str = OPERATORS

    def serves(self, port: int, subscriber: str) -> bool:
        opens = port in self.ports if self.ports is not None else port not in NEVER_HTTP
        return opens and self.who in (EVERYBODY, subscriber)

    def holds(self, address: Address, *, exactly: bool = False) -> bool:
        """`exactly`: only where it names this one address and no other."""
        network = self.network
        return (
            address.version == network.version
            and address in network
            and (not exactly or network.prefixlen == network.max_prefixlen)
        )


Openings = tuple[Opening, ...]


def parse_openings(value: str | Iterable[str]) -> Openings:
    """From a setting: a list, or one string with commas. Raises ValueError naming the bad entry, and how to write it.

    A subscriber whose name holds a comma, a space or a percent sign is written percent-encoded.
    """
    parts = value.replace(",", " ").split() if isinstance(value, str) else list(value)
    return tuple(_opening(part.strip()) for part in parts)


def entry_for(network: str | Address, port: int, subscriber: str) -> str:
    """How an operator writes what opens this address or network to this subscriber at this port, and nothing more."""
    found = ip_network(network, strict=False)
    where = f"[{found.network_address}]/{found.prefixlen}" if found.version == 6 else str(found)
    who = f"{quote(subscriber, safe='')}@" if subscriber else ""
    return f"{who}{where}:{port}"


def _opening(text: str) -> Opening:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} cannot be read; {HOW}")
    address = found["plain"] if found["six"] is None else f"{found['six']}{found['prefix'] or ''}"
    ports = found["ports"]
    if found["six"] is None and ports and ":" in found["plain"]:  # an IPv6 network without brackets has no port
        address, ports = address + ports, None
    try:
        network = ip_network(address, strict=False)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}; {HOW}") from None
    if found["who"] == "":
        raise ValueError(f"{text!r} names nobody before the @; {HOW}")
    return Opening(network, None if ports is None else _ports(ports, text), unquote(found["who"] or OPERATORS))


def _ports(text: str, entry: str) -> range:
    found = _PORTS.fullmatch(text)
    if found is not None:
        first, last = int(found[1]), int(found[2] or found[1])
        if first in ALL_PORTS and last in ALL_PORTS and first <= last:
            return range(first, last + 1)
    raise ValueError(f"{entry!r}: a port is a number from 1 to 65535, or two with a hyphen; {HOW}")
