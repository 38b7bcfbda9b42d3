"""Watching a batch from a terminal until it is complete. Reads, and changes nothing."""

import time
from collections.abc import Iterator
from typing import TextIO

from tasks.models import Batch, Task
from tasks.states import FINAL_STATES, State

LOOK_SECONDS = 0.5
STILL_SECONDS = 30.0  # nothing moved for so long: say what may be wrong
QUIET_SECONDS = 10.0  # where nobody looks, a line now and then
BAR_WIDTH = 30


def looks(batch: Batch, timeout: float | None = None) -> Iterator[Batch]:
    """The batch again and again until it is complete, or `timeout` seconds are over."""
    ends = None if timeout is None else time.monotonic() + timeout
    while True:
        batch.refresh_from_db()
        yield batch
        if batch.is_completed or (ends is not None and time.monotonic() > ends):
            return
        time.sleep(LOOK_SECONDS)


def finished_count(batch: Batch) -> int:
    return sum(batch.counts.get(state, 0) for state in FINAL_STATES)


def bar(batch: Batch) -> str:
    """`[#####-----] 120/200  succeeded 110, running 10`."""
    done = finished_count(batch)
    filled = BAR_WIDTH * done // max(1, batch.total)
    counts = ", ".join(f"{State(state).label} {n}" for state, n in sorted(batch.counts.items()) if n)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}] {done}/{batch.total}  {counts}"


def show(batch: Batch, out: TextIO, *, follow: bool = False, timeout: float | None = None) -> None:
    """Draw the progress until the end: a moving bar on a terminal, else a line now and then; or each task's end."""
    progress = Progress(out)
    news = Ends(batch)
    for look in looks(batch, timeout):
        if follow:
            for words in news.since_last():
                progress.line(words)
        progress.update(look)
    progress.close(batch)


class Progress:
    """One line that is drawn over on a terminal, and is printed seldom anywhere else."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._moving = out.isatty()
        self._last = ""
        self._drawn = 0.0
        self._moved = time.monotonic()

    def update(self, batch: Batch) -> None:
        now, text = time.monotonic(), bar(batch)
        if text != self._last:
            self._last, self._moved = text, now
        elif now - self._moved > STILL_SECONDS:
            self._moved = now
            self.line(
                "Nothing has moved for 30 s. Where no webhook comes, the provider is asked once a minute. "
                "If it lasts: does a task worker run, is the kind paused? See the start page."
            )
        if self._moving:
            self._write(f"\r\x1b[2K{text}")
        elif now - self._drawn > QUIET_SECONDS:
            self._drawn = now
            self._write(f"{text}\n")

    def line(self, words: str) -> None:
        self._write(f"\r\x1b[2K{words}\n{self._last}" if self._moving else f"{words}\n")

    def close(self, batch: Batch) -> None:
        self._write(f"\r\x1b[2K{bar(batch)}\n" if self._moving else f"{bar(batch)}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class Ends:
    """The tasks of a batch that have become final since the last question."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._told: set[int] = set()

    def since_last(self) -> list[str]:
        done = Task.objects.filter(batch=self._batch, state__in=FINAL_STATES).exclude(pk__in=self._told)
        words = []
        for task in done.defer("input", "result").order_by("finished_at", "pk"):
            self._told.add(task.pk)
            name = f" {task.reference}" if task.reference else ""
            why = f": {task.error_code} {task.error_text}".rstrip() if task.error_code else ""
            words.append(f"{task.pk}{name} {task.get_state_display()}{why}")
        return words
