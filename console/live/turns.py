"""Whose topic is read next: first snapshots before refreshes, and the viewers in turn, however much each of them asks.

Pure: it reads no clock and no database. A viewer who watches a thousand things gets as many turns as one who watches
one; a topic that several watch is read in the turn of whoever has waited longest, for all of them.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

REFRESH_EVERY = 4  # of so many reads one is a refresh where one is due, so that first snapshots cannot starve them


@dataclass(eq=False)
class Wish:
    """One topic that some viewers want read. `is_first`: somebody has been shown nothing of it yet."""

    viewers: set[str]
    is_first: bool
    is_slow: bool
    due: float


@dataclass
class Turns:
    """`readers` reads at once: one viewer gets all but one of them, and topics known to be slow get one together."""

    readers: int
    _turn: int = 0
    _last: dict[str, int] = field(default_factory=dict)
    _under_way: Counter[str] = field(default_factory=Counter)
    _slow_under_way: int = 0
    _firsts: int = 0

    def enter(self, viewer: str) -> None:
        """A viewer who comes goes behind those who wait already; each of them has one turn before."""
        self._last.setdefault(viewer, self._turn)

    def forget(self, viewer: str) -> None:
        self._last.pop(viewer, None)

    def next(self, wishes: Iterable[Wish]) -> Wish | None:
        """Which of the wishes that are due is read now; None while all of them must wait for a read to end."""
        ready = [wish for wish in wishes if self._may(wish)]
        refreshes = [wish for wish in ready if not wish.is_first]
        firsts = [wish for wish in ready if wish.is_first]
        if firsts and refreshes and self._firsts >= REFRESH_EVERY - 1:
            firsts = []
        chosen = firsts or refreshes
        return min(chosen, key=lambda wish: (min(self._since(wish)), wish.due), default=None)

    def begin(self, wish: Wish) -> str:
        """The read begins, on this viewer's account; say so to `end`."""
        viewer = min(self._free(wish) or wish.viewers, key=lambda name: (self._last.get(name, 0), name))
        self._turn += 1
        self._last[viewer] = self._turn
        self._under_way[viewer] += 1
        self._slow_under_way += wish.is_slow
        self._firsts = self._firsts + 1 if wish.is_first else 0
        return viewer

    def end(self, wish: Wish, viewer: str) -> None:
        self._under_way[viewer] -= 1
        self._under_way += Counter()  # drops what is zero
        self._slow_under_way -= wish.is_slow

    def _may(self, wish: Wish) -> bool:
        return not (wish.is_slow and self._slow_under_way) and bool(self._free(wish))

    def _free(self, wish: Wish) -> list[str]:
        return [name for name in wish.viewers if self._under_way[name] < max(1, self.readers - 1)]

    def _since(self, wish: Wish) -> list[int]:
        return [self._last.get(name, 0) for name in self._free(wish)]
