"""Keep calls in the air without a barrier: claim, call in threads, settle as they come back.

The database is used by the looping thread alone; the threads of a stream speak HTTP and nothing else, so no connection
can leak from them. A call that hangs holds one place of its own stream and delays no other. Whatever is not settled
when the process dies comes back by its lease.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from tasks.engine import clock

GATHER_SECONDS = 0.04  # what comes back together is settled together
LOOK_SECONDS = 0.2
REFRESH_SECONDS = 5.0
LINGER = timedelta(seconds=5)  # what falls due this soon is waited for; beyond, the sweep wakes us

log = structlog.get_logger(__name__)


@dataclass
class Stream:
    """One stream of like calls. `claim(free, now)` takes due work, `call` does it, `settle(pairs, now)` writes it.

    `next_due()` says when the stream will have work again, as far as the rows know.
    """

    name: str
    claim: Callable[[int, datetime], Sequence[Any]]
    call: Callable[[Any], Any]
    settle: Callable[[list[tuple[Any, Any]], datetime], None]
    next_due: Callable[[], datetime | None] = lambda: None
    threads: int = 4
    depth: int = 4  # most in the air, waiting for a thread included
    in_air: dict[Future[Any], Any] = field(default_factory=dict)
    is_dry: bool = False
    _executor: ThreadPoolExecutor | None = None

    def fill(self) -> None:
        free = self.depth - len(self.in_air)
        if self.is_dry or free < max(1, self.depth // 4):  # a claim for one free place would be a query a call
            return
        works = self.claim(free, clock.now())
        self.is_dry = not works
        for work in works:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.threads, thread_name_prefix=self.name)
            self.in_air[self._executor.submit(self.call, work)] = work

    def land(self, done: set[Future[Any]]) -> int:
        """Settle those of this stream."""
        pairs = [(self.in_air.pop(future), future.result()) for future in done if future in self.in_air]
        if pairs:
            self.is_dry = False
            self._settle(pairs)
        return len(pairs)

    def _settle(self, pairs: list[tuple[Any, Any]]) -> None:
        """All together; if one of them breaks that, each for itself. The one that cannot be settled is left to its
        lease, and to the rescue that makes a dead letter of it in the end."""
        try:
            self.settle(pairs, clock.now())
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("settle_failed", stream=self.name, calls=len(pairs))
            for pair in pairs if len(pairs) > 1 else []:
                self._settle([pair])

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


def run_streams(
    streams: Sequence[Stream],
    *,
    seconds: float,
    should_stop: Callable[[], bool],
    nudged: Callable[[], bool] = lambda: False,
) -> int:
    """Run until nothing is due or falls due soon, or the time is up; what is in the air still lands. Returns calls.

    `nudged` tells that a wake-up came meanwhile: every stream then looks again, though a call of another one hangs.
    """
    ends = time.monotonic() + seconds
    calls, refresh_at = 0, 0.0
    try:
        while True:
            if time.monotonic() >= refresh_at:
                _refresh_connection()
                refresh_at = time.monotonic() + REFRESH_SECONDS
            is_open = time.monotonic() < ends and not should_stop()
            if is_open:
                _fill(streams, look_again=nudged())
            flying = {future for stream in streams for future in stream.in_air}
            if flying:
                calls += _land(streams, flying)
            elif not (is_open and _linger(streams)):
                return calls
    finally:
        for stream in streams:
            stream.close()


def _refresh_connection() -> None:
    """After a restart of the database every query would fail for ever on the old connection. Not every time round:
    without a pool it means to connect anew."""
    if not connection.in_atomic_block:
        close_old_connections()


def _fill(streams: Sequence[Stream], *, look_again: bool) -> None:
    for stream in streams:
        stream.is_dry = stream.is_dry and not look_again
        stream.fill()


def _land(streams: Sequence[Stream], flying: set[Future[Any]]) -> int:
    done, still = wait(flying, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
    if done and still:
        done |= wait(still, timeout=GATHER_SECONDS).done
    return sum(stream.land(done) for stream in streams)


def _linger(streams: Sequence[Stream]) -> bool:
    """Nothing is in the air: wait a moment if some stream has work soon, and let those look whose time has come."""
    now = clock.now()
    soon = [(stream, due) for stream in streams if (due := stream.next_due()) is not None and due <= now + LINGER]
    if not soon:
        return False
    time.sleep(LOOK_SECONDS)
    for stream, due in soon:
        stream.is_dry = due > now + timedelta(seconds=LOOK_SECONDS)
    return True
