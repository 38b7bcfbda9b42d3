"""Kept connections: which descriptor each one is, and whether it may carry another request.

libcurl looks at an idle connection once a second at most, and drops no answer that nobody asked for. So this is asked
before every request on a used connection: bytes that wait there belong to no request of ours, and a closed one would
lose the request. Both cost nothing but a new connection, since nothing was sent yet.
"""

from __future__ import annotations

import fcntl
import select
import socket
import sys
import termios
import time

Ends = tuple[str, str, int, int]  # their address, ours, their port, ours

DISTRUST_SECONDS = 600.0
_MAX_ORIGINS = 10_000
_BYTES_RECEIVED = slice(128, 136)  # of struct tcp_info in <linux/tcp.h>, since Linux 4.1


class KeptConnections:
    """Shared by all handles of one multi handle."""

    def __init__(self) -> None:
        self._descriptors: dict[Ends, int] = {}
        self._known: dict[int, tuple[Ends, str]] = {}
        self._polls: dict[int, select.poll] = {}  # one for each descriptor's number, whichever socket has it now
        self._distrusted: dict[str, float] = {}
        self._of_http2: set[str] = set()

    def note(self, ends: Ends, descriptors: tuple[int, ...], origin: str) -> None:
        """A new connection to `origin` (scheme, host and port), made with one of these descriptors."""
        descriptor = descriptors[-1] if len(descriptors) == 1 else _bound_to(ends[3], descriptors)
        if descriptor is None:
            return  # unknown, so that no other request is sent on it
        if former := self._known.get(descriptor):
            self._descriptors.pop(former[0], None)
        self._known[descriptor] = ends, origin
        self._descriptors[ends] = descriptor

    def is_silent(self, ends: Ends) -> bool:
        """Nothing to read on this idle connection: no surplus answer, no end, no fault."""
        descriptor = self._descriptors.get(ends)
        if descriptor is None:
            return False
        poll = self._polls.get(descriptor)
        if poll is None:
            poll = self._polls[descriptor] = select.poll()
            poll.register(descriptor, select.POLLIN)
        if poll.poll(0):
            self.listen(descriptor)
            return False
        return True

    def listen(self, descriptor: int) -> None:
        """Something came on an idle connection. Whoever talks unasked is given a fresh connection for each request.

        For such a receiver a look before each request is not enough: what it has not sent yet may come right after
        ours went out, and be taken for the answer. TLS has talk of its own on an idle connection, so it is not judged.
        """
        _, origin = self._known.get(descriptor, ((), ""))
        if origin.startswith("http://") and _has_data(descriptor):
            self.distrust(origin)

    def received(self, ends: Ends) -> int:
        """Bytes that the kernel has received for this connection so far; -1 where it does not say."""
        descriptor = self._descriptors.get(ends)
        return -1 if descriptor is None else _received(descriptor)

    def has_read_since(self, ends: Ends, received: int) -> bool:
        """Was anything read that came after this count? True also where the kernel does not say.

        Behind TLS a surplus answer may wait in OpenSSL's buffer, where nobody can see it. But an answer that was read
        while all that came meanwhile still waits in the kernel is not the answer to what went out meanwhile.
        """
        descriptor = self._descriptors.get(ends)
        if descriptor is None:
            return True
        try:  # in this order: what comes between the two is not taken for something that waits
            waits = int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
        except OSError:
            return True
        now = _received(descriptor)
        return now < 0 or waits < now - received

    def distrust(self, origin: str) -> None:
        if len(self._distrusted) >= _MAX_ORIGINS:
            self._distrusted.clear()
        self._distrusted[origin] = time.monotonic() + DISTRUST_SECONDS

    def trusts(self, origin: str) -> bool:
        """May connections to this origin be used again?"""
        if not self._distrusted:
            return True
        return self._distrusted.get(origin, 0.0) < time.monotonic()

    def speaks_http2(self, origin: str) -> bool:
        """Must HTTP/2 be offered to this origin? Never at first: HTTP/1.1 is what receivers know best."""
        return origin in self._of_http2

    def learn_http2(self, origin: str, *, speaks: bool) -> None:
        if not speaks:
            self._of_http2.discard(origin)
        elif len(self._of_http2) < _MAX_ORIGINS:
            self._of_http2.add(origin)


def _bound_to(port: int, descriptors: tuple[int, ...]) -> int | None:
    """Several were opened, one after the other or at once: the one that won has this port of ours.

    The others are closed, and their numbers may be anything's by now: another file's of this process, or nobody's.
    None where no one has it.
    """
    for descriptor in reversed(descriptors):
        try:
            sock = socket.socket(fileno=descriptor)
        except OSError:  # nobody's, or no socket
            continue
        try:
            name = sock.getsockname()
            if isinstance(name, tuple) and name[1:2] == (port,):
                return descriptor
        except OSError:
            continue
        finally:
            sock.detach()
    return None


def _received(descriptor: int) -> int:
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return -1
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.stop)
        return int.from_bytes(info[_BYTES_RECEIVED], sys.byteorder) if len(info) == _BYTES_RECEIVED.stop else -1
    except OSError:
        return -1
    finally:
        sock.detach()


def _has_data(descriptor: int) -> bool:
    """An answer to read, and not the end of the connection."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        # 408 is how some receivers close an idle connection (RFC 9110 §15.5.9): a farewell, and nobody's answer.
        data = sock.recv(12, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return bool(data) and data[9:12] != b"408"
    except OSError:
        return False
    finally:
        sock.detach()
