"""Ask the operating system for the addresses of a name, and say plainly what went wrong if it has none.

Blocking: `getaddrinfo` has no timeout. Call it from a thread that may be left behind; `within` does that.
Never patch the process-wide resolver, never judge addresses here: that is `kernel.network.addresses`' work.
"""

from __future__ import annotations

import socket
import threading


class NameNotFound(Exception):
    """The name service answered: there is no such name, or it has no address. The receiver's matter."""


class LookupFailed(Exception):
    """The name service gave no usable answer: a time-out, SERVFAIL, or our own resolver is down."""


# EAI_NODATA and EAI_ADDRFAMILY are glibc's and missing from `socket` on some systems.
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5), getattr(socket, "EAI_ADDRFAMILY", -9)}


def addresses_of(host: str) -> tuple[str, ...]:
    """All addresses of a name in the resolver's order, without duplicates. Raises NameNotFound or LookupFailed."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _NO_SUCH_NAME:
            raise NameNotFound("no such name") from error
        raise LookupFailed(f"the name service gave no answer ({error.strerror})") from error
    except (OSError, UnicodeError) as error:
        raise LookupFailed(f"the lookup could not be made ({type(error).__name__})") from error
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def within(host: str, seconds: float) -> tuple[str, ...]:
    """`addresses_of`, given up after so many seconds. Raises NameNotFound or LookupFailed."""
    outcome: list[tuple[str, ...] | Exception] = []

    def run() -> None:
        try:
            outcome.append(addresses_of(host))
        except (NameNotFound, LookupFailed) as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="lookup", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    if not outcome:
        raise LookupFailed(f"the name service gave no answer within {seconds:.1f} s")
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]
