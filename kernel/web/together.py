"""What comes at once is worked on at once: whoever finds nobody at work takes all that wait, in one set.

At many connections each call would else pay for its own transaction, and wait for the commits of all the others, since
they tell of the same batches. A thread leads one round, the one that its own item is in, and then gives the lead to one
that waits. Must know nothing of what the work is.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Entry(Generic[Item, Answer]):
    def __init__(self, item: Item) -> None:
        self.item = item
        self.answer: Answer | None = None
        self.leads = False
        self.turn = threading.Event()


class Gatherer(Generic[Item, Answer]):
    """`work` answers for each of many items, in their order, or raises: then none of them has an answer."""

    def __init__(
        self, work: Callable[[Sequence[Item]], Sequence[Answer]], most: int, size: Callable[[Item], int]
    ) -> None:
        self._work, self._most, self._size = work, most, size
        self._lock = threading.Lock()
        self._waiting: list[_Entry[Item, Answer]] = []
        self._is_led = False

    def take(self, item: Item) -> Answer | None:
        """The item's answer; None where the set it was in could not be worked on as one."""
        entry: _Entry[Item, Answer] = _Entry(item)
        with self._lock:
            self._waiting.append(entry)
            entry.leads, self._is_led = not self._is_led, True
        if not entry.leads:
            entry.turn.wait()
        if entry.leads:
            self._lead()
        return entry.answer

    def _lead(self) -> None:
        """The leader's own entry is the oldest, so it is in the round."""
        with self._lock:
            round = self._round()
            del self._waiting[: len(round)]
        try:
            answers = self._work([entry.item for entry in round])
            for entry, answer in zip(round, answers, strict=True):
                entry.answer = answer
        except Exception:  # noqa: BLE001, S110 - each works on its own item alone then, and says what ails it
            pass
        finally:
            self._hand_over()
            for entry in round:
                entry.turn.set()

    def _round(self) -> list[Any]:
        count, whole = 0, 0
        for entry in self._waiting:
            whole += self._size(entry.item)
            if count and whole > self._most:
                break
            count += 1
        return self._waiting[:count]

    def _hand_over(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].turn.set()
            else:
                self._is_led = False
