"""Logging in with a password: no database connection is held while it is hashed, and guessing is slow and seen.

Counts are kept in the memory of each web process: they cost no connection, and n processes allow n times the
attempts. A correct password clears its account's.
"""

import ipaddress
import math
import threading
import time
from collections import OrderedDict, deque
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db import connection
from django.http import HttpRequest

from kernel.auth import name_of
from kernel.network.peers import client_address

WINDOW_SECONDS = 15 * 60
MOST_PER_ACCOUNT = 10
MOST_PER_ADDRESS = 30
REMEMBERED = 20_000  # accounts and addresses; the longest unseen is forgotten first
HASHED_AT_ONCE = 2
DEMO_EMAIL = "demo@roundtrip.invalid"  # marks the account that the demo makes; production does not let it in

log = structlog.get_logger(__name__)
_hashing = threading.BoundedSemaphore(HASHED_AT_ONCE)


class Attempts:
    """Attempts of the last window, by name. Safe for threads. `now` is in seconds of a clock that never goes back."""

    def __init__(self, window_seconds: float = WINDOW_SECONDS, remembered: int = REMEMBERED) -> None:
        self._window = window_seconds
        self._remembered = remembered
        self._times: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()
        self._welcome: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, account: str, address: str, now: float) -> float:
        """0, and the attempt counts from now on; or the seconds until the next one is allowed."""
        with self._lock:
            limits = [(self._account(account, address), MOST_PER_ACCOUNT), (("address", address), MOST_PER_ADDRESS)]
            wait = max(self._wait(name, most, now) for name, most in limits)
            if wait <= 0:
                for name, _ in limits:
                    self._times.setdefault(name, deque()).append(now)
                    self._times.move_to_end(name)
                _cut(self._times, self._remembered)
        return max(0.0, wait)

    def succeeded(self, account: str, address: str) -> None:
        """Clears the account's count. Whoever guesses from elsewhere does not lock this account out of this address."""
        with self._lock:
            self._times.pop(self._account(account, address), None)
            if times := self._times.get(("address", address)):
                times.pop()  # this one; an account of one's own must not wipe the guesses at others
            self._welcome[(account, address)] = None
            _cut(self._welcome, self._remembered)

    def clear(self) -> None:
        with self._lock:
            self._times.clear()
            self._welcome.clear()

    def _account(self, account: str, address: str) -> tuple[str, ...]:
        return ("account", account, address) if (account, address) in self._welcome else ("account", account)

    def _wait(self, name: tuple[str, ...], most: int, now: float) -> float:
        times = self._times.get(name, deque())
        while times and times[0] <= now - self._window:
            times.popleft()
        return times[-most] + self._window - now if len(times) >= most else 0.0


def _cut(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


attempts = Attempts()


def begin(username: str, request: HttpRequest | None) -> int:
    """0, or the whole minutes until the next attempt is allowed; then nothing is asked of the database."""
    address = _where(request)
    wait = attempts.begin(_account(username), address, time.monotonic())
    if wait:
        log.warning("log_in_throttled", address=address)
    return math.ceil(wait / 60)


def succeeded(username: str, request: HttpRequest | None) -> None:
    attempts.succeeded(_account(username), _where(request))


def _account(username: str) -> str:
    return username.strip().casefold()[:150]


def _where(request: HttpRequest | None) -> str:
    """The address; of IPv6 the network of 64 bits, which is what one caller is given."""
    found = client_address(request) if request is not None else None
    if found and ":" in found:
        return str(ipaddress.ip_network(f"{found}/64", strict=False))
    return found or "(none)"


def is_demo_account(user: Any) -> bool:
    """Made by `bootstrap_demo`, with every right and a password that lies in a file."""
    return bool(user.email == DEMO_EMAIL)


class PasswordBackend(ModelBackend):
    """Django's, but the connection goes back to the pool before the hash, and few hashes are made at once."""

    def user_can_authenticate(self, user: Any) -> bool:
        """Asked at each request of a session too: one that the demo left behind ends with it."""
        return super().user_can_authenticate(user) and not (settings.PRODUCTION and is_demo_account(user))

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> Any:
        User = get_user_model()
        username = username if username is not None else kwargs.get(User.USERNAME_FIELD)
        if username is None or password is None:
            return None
        user = User._default_manager.filter(**{User.USERNAME_FIELD: username}).first()
        if not connection.in_atomic_block:
            connection.close()
        with _hashing:
            if user is None:
                User().set_password(password)  # takes as long as for an account that exists
            elif user.check_password(password) and self.user_can_authenticate(user):
                return user
        # A name that is no account may be a password in the wrong field: it is not logged.
        why = {"reason": "demo_account"} if user and settings.PRODUCTION and is_demo_account(user) else {}
        log.warning("log_in_failed", user=name_of(user) if user else "(unknown)", address=_where(request), **why)
        return None
