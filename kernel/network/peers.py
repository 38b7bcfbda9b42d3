"""Who is at the other end of the line: the peer's address, or the one a trusted proxy vouches for."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(request: HttpRequest) -> str | None:
    """The caller's IP address. `X-Forwarded-For` counts only through TRUSTED_PROXIES, read from the right."""
    return address_behind(request.META.get("REMOTE_ADDR", ""), request.headers.get("x-forwarded-for", ""))


def address_behind(peer_address: str, forwarded_for: str) -> str | None:
    """The same, of a connection that is no request of Django's."""
    peer = _parse(peer_address)
    if peer is None or not _is_trusted(peer):
        return str(peer) if peer else None
    for text in reversed(forwarded_for.split(",")[-20:]):
        hop = _parse(text)
        if hop is None:
            break
        peer = hop
        if not _is_trusted(hop):
            break
    return str(peer)


def is_trusted_proxy(text: str) -> bool:
    """Whether this address of a peer is in TRUSTED_PROXIES."""
    address = _parse(text)
    return address is not None and _is_trusted(address)


def _parse(text: str) -> Address | None:
    """An address, without the port or zone some proxies append; None for anything else."""
    host = text.strip().strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(address: Address) -> bool:
    return any(address in network for network in settings.TRUSTED_PROXIES if network.version == address.version)
