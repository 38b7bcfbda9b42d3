"""libcurl's sockets and timer on one epoll, with a bell that other threads can ring.

libcurl says which sockets it waits for and when it next wants the time; this waits and tells it what happened. It
knows nothing of requests. `perform()` with `select()` would be as fast, but is blind above descriptor 1023 and
cannot be woken.
"""

from __future__ import annotations

import os
import select
import threading
import time
import warnings

import pycurl

_IN, _OUT, _ERROR = pycurl.CSELECT_IN, pycurl.CSELECT_OUT, pycurl.CSELECT_ERR


class Reactor:
    """Owns the multi handle. Not thread-safe, but for `ring()`."""

    def __init__(self, max_idle_connections: int) -> None:
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_MAXCONNECTS, max_idle_connections)
        self.multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self.multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._bell_lock = threading.Lock()
        self._epoll.register(self._bell, select.EPOLLIN)
        self._wanted: dict[int, int] = {}
        self._registered: dict[int, int] = {}
        self._timer_at: float | None = None

    def ring(self) -> None:
        """End a wait that is going on, or the next one. Safe from any thread, also after `close()`."""
        with self._bell_lock:  # a lookup may come back after close(), when the number is another file's
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def turn(self, until: float) -> None:
        """Wait for the first of: a socket, libcurl's timer, the bell, `until` (monotonic); and pass it on."""
        now = time.monotonic()
        if self._timer_at is not None and self._timer_at <= now:
            self._timer_at = None
            self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
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
                self._forget(fd)

    def on_close(self, fd: int) -> int:
        """libcurl wants this socket closed. Deregister first: the number may be another socket's at once."""
        self._wanted.pop(fd, None)
        self._forget(fd)
        os.close(fd)
        return 0

    def close(self) -> None:
        with warnings.catch_warnings():
            # While the multi handle closes, pycurl closes idle sockets by itself and grumbles that it cannot ask us.
            warnings.simplefilter("ignore", RuntimeWarning)
            self.multi.close()
        self._epoll.close()
        with self._bell_lock:
            os.close(self._bell)
            self._bell = -1

    def _on_timer(self, milliseconds: int) -> None:
        self._timer_at = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        if what == pycurl.POLL_REMOVE:
            # The registration stays: a reused connection asks for the same events a moment later, and each
            # epoll_ctl saved is a microsecond. An event nobody wants takes it away in `turn`.
            self._wanted.pop(fd, None)
            return
        mask = (select.EPOLLIN if what & 1 else 0) | (select.EPOLLOUT if what & 2 else 0)
        self._wanted[fd] = mask
        known = self._registered.get(fd)
        if known != mask:
            if known is None:
                self._epoll.register(fd, mask)
            else:
                self._epoll.modify(fd, mask)
            self._registered[fd] = mask

    def _forget(self, fd: int) -> None:
        if self._registered.pop(fd, None) is not None:
            self._epoll.unregister(fd)
