"""Names to addresses, outside of libcurl: one lookup per name, its own deadline, a cache, and the guard applied.

libcurl's resolver has a handful of threads, and ten names whose servers never answer stop it for everybody. Here a
name that was slow once is looked up in a small lane of its own, so hundreds of black holes leave the others alone.
It also tells whose fault silence is: the name's, or our own resolver's, which must not cost a receiver its attempts.
That ours is at fault takes several witnesses: nothing was answered lately, and names of different domains are silent.
Thread-safe. It never dials anything.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from delivery.policy.own_faults import Kind
from kernel.network import lookup
from kernel.network.addresses import Ruling, is_open_to_somebody, is_public, judge
from kernel.network.openings import Openings

MAX_SILENT = 1_000
MAX_ADDRESSES = 6  # of a name, tried in turn
MAX_MIXED = 32  # kept of a name that has private ones too, of which a request may get some and not others


class NameFault(StrEnum):
    """Why a name gives no address that we may dial."""

    NOT_FOUND = "not_found"  # the name service says so
    NO_ANSWER = "no_answer"  # silence, while other names are answered
    BLOCKED = "blocked"  # it has addresses; the guard refuses every one
    RESOLVER = "resolver"  # our own name service is down: nobody's attempt


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name leads to: addresses that may be dialled, in the resolver's order, or a fault in words.

    Not `is_public`: some of them are open to certain requests only, and each request is judged by itself.
    """

    addresses: tuple[str, ...] = ()
    fault: NameFault | None = None
    detail: str = ""
    rule: str = ""
    blocked_address: str = ""
    is_public: bool = True


@dataclass(frozen=True, slots=True)
class ResolverConfig:
    """Times in seconds. `witnesses`: so many domains must be silent within `witness_seconds` before we blame ourselves.

    `canary` may be a name that exists as long as our resolver works; it is asked in doubt, and is one more witness.
    """

    deadline_seconds: float = 5.0
    fresh_seconds: float = 30.0
    stale_seconds: float = 3600.0
    negative_seconds: float = 10.0
    resolver_fault_seconds: float = 2.0
    evidence_seconds: float = 10.0
    witnesses: int = 3
    witness_seconds: float = 120.0
    slow_seconds: float = 2.0
    max_threads: int = 96
    max_slow_threads: int = 24
    idle_thread_seconds: float = 15.0
    max_names: int = 50_000
    canary: str = ""


@dataclass(slots=True)
class _Entry:
    answer: Resolution
    until: float
    good_at: float = 0.0
    slow: bool = False


class Resolver:
    """The process's one name cache. `addresses_of` may be injected (tests); it blocks, and raises as `lookup` does."""

    def __init__(
        self,
        config: ResolverConfig | None = None,
        *,
        allowed_networks: Openings = (),
        addresses_of: Callable[[str], Sequence[str]] = lookup.addresses_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config or ResolverConfig()
        self._allowed = tuple(allowed_networks)
        self._addresses_of = addresses_of
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._waiting: dict[str, list[Callable[[str], None]]] = {}
        self._running: set[str] = set()
        self._fast = _Lane(self._work, self.config.max_threads, self.config.idle_thread_seconds)
        self._slow = _Lane(self._work, self.config.max_slow_threads, self.config.idle_thread_seconds)
        self._answered_at = float("-inf")
        self._silent: dict[str, float] = {}  # domains, with the moment of their last silence since the last answer
        self._canary_lock = threading.Lock()

    def peek(self, host: str) -> Resolution | None:
        """The cached answer, or None where a lookup is needed. Cheap; no lock."""
        entry = self._entries.get(host)
        if entry is not None and self._clock() < entry.until:
            return entry.answer
        return None

    def ask(self, host: str, done: Callable[[str], None]) -> None:
        """Look the name up; `done(host)` is called from another thread once `peek(host)` can answer.

        Many askers of one name share one lookup. The asker keeps its own deadline (`config.deadline_seconds`) and
        takes `silence(host)` as the answer when it strikes.
        """
        with self._lock:
            waiting = self._waiting.get(host)
            if waiting is not None:
                waiting.append(done)
                return
            self._waiting[host] = [done]
            entry = self._entries.get(host)
            lane = self._slow if entry is not None and entry.slow else self._fast
        lane.put(host)

    def silence(self, host: str) -> Resolution:
        """The answer for somebody who has waited for this name long enough."""
        with self._lock:
            entry = self._entries.get(host)
            queued = host in self._waiting and host not in self._running
            if not queued:
                self._note_silence(host)
            answer = self._stale(entry) or self._blame(queued=queued)
            if entry is None or self._clock() >= entry.until:
                seconds = self._negative_seconds(answer)
                good_at = entry.good_at if entry else 0.0
                asked = answer.fault is not NameFault.RESOLVER
                self._entries[host] = _Entry(answer, self._clock() + seconds, good_at, slow=asked)
            return answer

    def close(self) -> None:
        """Let idle threads go. Threads inside getaddrinfo are daemons and are left behind."""
        self._fast.close()
        self._slow.close()

    def _work(self, host: str) -> None:
        started = self._clock()
        self._running.add(host)
        answer = self._look_up(host)
        with self._lock:
            self._running.discard(host)
            self._store(host, answer, slow=self._clock() - started >= self.config.slow_seconds)
            callbacks = self._waiting.pop(host, [])
        for done in callbacks:
            done(host)

    def _look_up(self, host: str) -> Resolution:
        try:
            found = tuple(self._addresses_of(host))
        except lookup.NameNotFound:
            self._answered()
            return Resolution(fault=NameFault.NOT_FOUND, detail=f"{host}: there is no such name.")
        except Exception:  # noqa: BLE001 - whatever a resolver raises, the askers must be told
            self._note_silence(host)
            self._try_canary(host)
            return self._blame()
        if host != "localhost":
            self._answered()
        return self._guarded(host, found)

    def _guarded(self, host: str, found: tuple[str, ...]) -> Resolution:
        good = tuple(address for address in found if is_open_to_somebody(address, self._allowed))
        if good and all(map(is_public, good)):
            return Resolution(good[:MAX_ADDRESSES])
        if good:
            return Resolution(good[:MAX_MIXED], is_public=False)
        if not found:
            return Resolution(fault=NameFault.NOT_FOUND, detail=f"{host}: the name has no address.")
        return blocked(host, found[0], judge(found[0], port=443))

    def _store(self, host: str, answer: Resolution, *, slow: bool) -> None:
        old = self._entries.get(host)
        now = self._clock()
        good_at = now if answer.addresses else (old.good_at if old else 0.0)
        if answer.fault in (NameFault.NO_ANSWER, NameFault.RESOLVER):
            stale = self._stale(old)
            if stale is not None:
                answer = stale
                self._entries[host] = _Entry(answer, now + self.config.resolver_fault_seconds, good_at, slow)
                return
        seconds = self.config.fresh_seconds if answer.addresses else self._negative_seconds(answer)
        if len(self._entries) >= self.config.max_names:
            self._forget()
        self._entries[host] = _Entry(answer, now + seconds, good_at, slow)

    def _stale(self, entry: _Entry | None) -> Resolution | None:
        """Old addresses are better than none while a name service is down; the guard has passed them."""
        if entry is None or not entry.answer.addresses:
            return None
        return entry.answer if self._clock() - entry.good_at < self.config.stale_seconds else None

    def _negative_seconds(self, answer: Resolution) -> float:
        if answer.addresses or answer.fault is NameFault.RESOLVER:
            return self.config.resolver_fault_seconds
        return self.config.negative_seconds

    def _blame(self, *, queued: bool = False) -> Resolution:
        if queued:
            return _ours("Too many names are silent now; this one was not asked.")
        if self._works() or self._silent_domains() < self.config.witnesses:
            return Resolution(fault=NameFault.NO_ANSWER, detail="The name's servers gave no answer.")
        return _ours("Our own name service gives no answers.")

    def _works(self) -> bool:
        return self._clock() - self._answered_at < self.config.evidence_seconds

    def _answered(self) -> None:
        self._answered_at = self._clock()
        self._silent = {}

    def _note_silence(self, host: str) -> None:
        if len(self._silent) >= MAX_SILENT:
            self._silent = {}  # they come again soon enough if they are still silent
        self._silent[domain_of(host)] = self._clock()

    def _silent_domains(self) -> int:
        since = self._clock() - self.config.witness_seconds
        return sum(at >= since for at in list(self._silent.values()))

    def _try_canary(self, host: str) -> None:
        """Nothing was answered lately: is it this name, or is it us? One thread asks, the others take its word."""
        if not self.config.canary or self._works():
            return
        if host == self.config.canary or not self._canary_lock.acquire(blocking=False):
            return
        try:
            self._addresses_of(self.config.canary)
            self._answered()
        except lookup.NameNotFound:
            self._answered()
        except Exception:  # noqa: BLE001 - silence again: one witness more
            self._note_silence(self.config.canary)
        finally:
            self._canary_lock.release()

    def _forget(self) -> None:
        now = self._clock()
        stale = [host for host, entry in self._entries.items() if entry.until < now]
        for host in stale or list(self._entries)[: self.config.max_names // 10]:
            del self._entries[host]


def blocked(host: str, address: str, verdict: Ruling) -> Resolution:
    """The name has addresses, and none of them may be dialled; `verdict` is on the first."""
    detail = f"{host} leads to {address}, which may not be called. {verdict.explanation}"
    return Resolution(fault=NameFault.BLOCKED, detail=detail, rule=verdict.rule, blocked_address=address)


def _ours(detail: str) -> Resolution:
    return Resolution(fault=NameFault.RESOLVER, detail=detail, rule=Kind.RESOLVER)


def domain_of(host: str) -> str:
    """The last two labels: names below them usually share their servers, so together they are one witness."""
    return ".".join(host.rstrip(".").lower().split(".")[-2:])


class _Lane:
    """A queue of names and up to `limit` daemon threads, started when needed and ended when idle."""

    def __init__(self, work: Callable[[str], None], limit: int, idle_seconds: float) -> None:
        self._work = work
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._ready = threading.Condition()
        self._queue: deque[str] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def put(self, host: str) -> None:
        with self._ready:
            self._queue.append(host)
            if self._idle >= len(self._queue):
                self._ready.notify()
            elif self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._run, name="names", daemon=True).start()

    def close(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def _run(self) -> None:
        while (host := self._next()) is not None:
            self._work(host)

    def _next(self) -> str | None:
        with self._ready:
            while not self._queue:
                if self._closed:
                    self._threads -= 1
                    return None
                self._idle += 1
                told = self._ready.wait(self._idle_seconds)
                self._idle -= 1
                if not told and not self._queue:
                    self._threads -= 1
                    return None
            return self._queue.popleft()
