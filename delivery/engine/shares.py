"""How many of one worker's transfers each subscriber may hold, so that nobody's slow receiver takes the others' room.

Two rooms. The *quick* one is what a worker keeps busy with; a transfer that has been in the air for a second has moved
to the *waiting* one, which is large because a socket that waits costs no work. Endpoints that were slow lately go there
at once. In either room a subscriber may hold no more than a fixed multiple of what is *left free* (dynamic thresholds:
Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998). So one alone gets
nearly all of it, each further one lowers everybody's part, and there is always something left for who comes next.

Pure but for the clock. One thread. It counts; it starts and ends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

SLOW_SECONDS = 1.0  # in the air for longer: it waits
SLOW_MEMORY_SECONDS = 60.0  # an endpoint is known to be slow for so long after its last slow transfer
LOOK_SECONDS = 0.05  # between two looks at who has become slow
QUICK_TIMES_FREE, WAITING_TIMES_FREE = 3, 1  # one alone: three quarters of the quick room, half of the waiting one
WAITING_AT_ONCE = 50  # started in one claim: opening hundreds of connections would hold up everybody else's
NOT_LIMITED = 1_000_000


@dataclass(slots=True)
class _Room:
    """Who holds how much of `size`, and the multiple of what is free that one may hold."""

    size: int
    times_free: int
    total: int = 0
    held: dict[Hashable, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.size - self.total

    def left_for(self, owner: Hashable, given: int = 0, given_to_owner: int = 0) -> int:
        """How many more this owner may hold, after so many promised to all and so many of them to it."""
        free = self.free - given
        mine = self.held.get(owner, 0) + given_to_owner
        # n more leave free - n: the most with mine + n <= times_free * (free - n), and the very first whenever it fits
        more = (self.times_free * free - mine) // (1 + self.times_free)
        return min(max(0, free), max(more, 0 if mine else 1))

    def enter(self, owner: Hashable) -> None:
        self.held[owner] = self.held.get(owner, 0) + 1
        self.total += 1

    def leave(self, owner: Hashable) -> None:
        self.total -= 1
        if left := self.held[owner] - 1:
            self.held[owner] = left
        else:
            del self.held[owner]


@dataclass(slots=True)
class _Held:
    """A transfer in the air."""

    owner: Hashable
    endpoint: int
    since: float
    waits: bool


class Shares:
    """The two rooms of one worker. Without `begin` nothing is limited."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow_until: dict[int, float] = {}
        self.begin(NOT_LIMITED, NOT_LIMITED)

    def begin(self, quick: int, waiting: int) -> None:
        """Empty rooms of these sizes; which endpoints are slow stays known."""
        self._quick = _Room(quick, QUICK_TIMES_FREE)
        self._waiting = _Room(waiting, WAITING_TIMES_FREE)
        self._held: dict[int, _Held] = {}  # by delivery, the oldest first
        self._look_at = 0.0

    @property
    def free(self) -> int:
        """Of the quick room: what a claim may be asked for."""
        return self._quick.free

    @property
    def waiting(self) -> int:
        return self._waiting.total

    def is_slow(self, endpoint: int) -> bool:
        """Known to be slow. Without a waiting room nobody is: all are treated alike then."""
        return self._waiting.size > 0 and self._slow_until.get(endpoint, 0.0) > self._clock()

    def promises(self, *, slow_too: bool = True) -> Promises:
        """The rooms as one claim sees them. Not `slow_too`: nothing for endpoints that are known to be slow."""
        return Promises(self, slow_too)

    def started(self, delivery: int, owner: Hashable, endpoint: int) -> None:
        self.ended(delivery)  # its lease ran out, and it came to us again while the first try is in the air
        waits = self.is_slow(endpoint) and self._waiting.free > 0
        self._held[delivery] = _Held(owner, endpoint, self._clock(), waits)
        (self._waiting if waits else self._quick).enter(owner)

    def ended(self, delivery: int) -> None:
        held = self._held.pop(delivery, None)
        if held is None:
            return
        (self._waiting if held.waits else self._quick).leave(held.owner)
        now = self._clock()
        if now - held.since >= SLOW_SECONDS:
            self._slow_until[held.endpoint] = now + SLOW_MEMORY_SECONDS

    def look(self) -> None:
        """Move what has become slow into the waiting room, as far as its owner's part of it allows."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        for held in self._held.values():
            if now - held.since < SLOW_SECONDS:
                break
            self._slow_until[held.endpoint] = now + SLOW_MEMORY_SECONDS
            if not held.waits and self._waiting.left_for(held.owner) > 0:
                held.waits = True
                self._quick.leave(held.owner)
                self._waiting.enter(held.owner)
        if len(self._slow_until) > len(self._held) + 1_000:
            self._slow_until = {pk: until for pk, until in self._slow_until.items() if until > now}


class Promises:
    """What one claim has given away so far, so that several endpoints of one subscriber share its part."""

    def __init__(self, shares: Shares, slow_too: bool) -> None:
        self._shares = shares
        self._slow_too = slow_too
        self._given: dict[tuple[bool, Hashable], int] = {}
        self._total = {False: 0, True: 0}

    def give(self, owner: Hashable, endpoint: int, wanted: int) -> int:
        """How many of the wanted this endpoint of this owner may have now."""
        waits = self._shares.is_slow(endpoint)
        if waits and not self._slow_too:
            return 0
        room = self._shares._waiting if waits else self._shares._quick
        left = room.left_for(owner, self._total[waits], self._given.get((waits, owner), 0))
        if waits:
            left = min(left, WAITING_AT_ONCE - self._total[True])
        return max(0, min(wanted, left))

    def took(self, owner: Hashable, endpoint: int, count: int) -> None:
        """Note what was granted."""
        waits = self._shares.is_slow(endpoint)
        self._given[waits, owner] = self._given.get((waits, owner), 0) + count
        self._total[waits] += count
