"""From where a provider's calls may come, beside its signature. Never instead of it: an address is easily borrowed."""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(texts: Sequence[str]) -> list[Network] | None:
    """The networks, or None where one of them is none: nobody must get in by a slip of the pen."""
    try:
        return [ipaddress.ip_network(str(text).strip()) for text in texts]
    except ValueError:
        return None


def may_call(peer: str, allowed: Sequence[str]) -> bool:
    """Whether this address is in the list; an empty list lets everybody through to the signature."""
    if not allowed:
        return True
    found = networks(allowed)
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    return found is not None and any(address in network for network in found if network.version == address.version)


def fault(allowed: Sequence[str]) -> str:
    """What is wrong with a configured list, in words; "" for nothing."""
    if networks(allowed) is None:
        return "its list of networks that may call has an entry that is no network (as 192.0.2.0/24), so nobody may"
    return ""
