"""libcurl's sockets and timer on one epoll, with a bell that other threads can ring.

libcurl says which sockets it waits for and when it next wants the time; this waits and tells it what happened. It
knows nothing of requests. `perform()` with `select()` would be as fast, but is blind above descriptor 1023 and
cannot be woken.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable

import pycurl  # noqa: TID251 - the guarded transport

_IN, _OUT, _ERROR = pycurl.CSELECT_IN, pycurl.CSELECT_OUT, pycurl.CSELECT_ERR


class Reactor:
    """Owns the multi handle. Not thread-safe, but for `ring()`.

    `on_stray(descriptor)` hears of events on sockets that libcurl waits for no more: idle or closed ones.
    """

    def __init__(self, max_idle_connections: int, on_stray: Callable[[int], None] = lambda _descriptor: None) -> None:
        self._on_stray = on_stray
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_MAXCONNECTS, max_idle_connections)
        # One request at a time on a connection of HTTP/2 too: what ends it then ends one attempt, and is told so.
        self.multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_NOTHING)
        self.multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self.multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.Lock()
        self._epoll.register(self._bell, select.EPOLLIN)
        self._wanted: dict[int, int] = {}
        self._registered: set[int] = set()
        self._timer_at: float | None = None

    def ring(self) -> None:
        """End a wait that is going on, or the next one. Safe from any thread, also after `close()`."""
        with self._bell_lock:  # a lookup may come back after close(), when the number is another file's
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def turn(self, until: float, flying: int) -> None:
        """Wait for the first of: a socket, libcurl's timer, the bell, `until` (monotonic); and pass it on.

        `flying` is how many transfers are in libcurl's hands: if the timer ends one of them, there is no wait.
        """
        now = time.monotonic()
        if self._timer_at is not None and self._timer_at <= now:
            self._timer_at = None
            if self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)[1] < flying:
                until = now
        if self._timer_at is not None:
            until = min(until, self._timer_at)
        for fd, events in self._epoll.poll(max(0.0, until - time.monotonic()), 512):
            if fd in self._wanted:
                self.multi.socket_action(
                    fd, (_IN if events & 1 else 0) | (_OUT if events & 4 else 0) | (_ERROR if events & 24 else 0)
                )
            elif fd == self._bell:
                os.eventfd_read(fd)
            else:
                self._on_stray(fd)
                self._forget(fd)

    def close(self) -> None:
        self.multi.close()
        self._epoll.close()
        with self._bell_lock:
            os.close(self._bell)
            self._bell = -1

    def _on_timer(self, milliseconds: int) -> None:
        self._timer_at = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        if what == pycurl.POLL_REMOVE:
            # The registration stays: a reused connection asks for the same events a moment later. An event nobody
            # wants takes it away in `turn`.
            self._wanted.pop(fd, None)
            return
        mask = (select.EPOLLIN if what & 1 else 0) | (select.EPOLLOUT if what & 2 else 0)
        self._wanted[fd] = mask
        self._watch(fd, mask)

    def _watch(self, fd: int, mask: int) -> None:
        """Ask the kernel, not our memory, whether this descriptor is registered.

        libcurl closes idle connections without a word to us; the kernel then forgets the registration, and the number
        may be another socket's. Believing the old one would mean to wait for events that never come.
        """
        if fd in self._registered:
            try:
                self._epoll.modify(fd, mask)
                return
            except FileNotFoundError:
                pass
        self._epoll.register(fd, mask)
        self._registered.add(fd)

    def _forget(self, fd: int) -> None:
        self._registered.discard(fd)
        with contextlib.suppress(OSError):  # closed meanwhile: the kernel has forgotten it already
            self._epoll.unregister(fd)
