"""What the function of an internal kind may say and ask: how it ended, how far it is, whether it is to stop.

    def nightly_export(task: Task, run: Run) -> Any:
        for number, part in enumerate(parts):
            if run.cancel_requested:
                raise Cancel("stopped between two parts")
            run.progress(100 * number // len(parts), f"part {number}")
            ...
        return {"parts": len(parts)}

It returns its result, anything that JSON holds; or it raises or returns one of the outcomes below. It runs in a
process of its own, under a lease and a time limit, and may run twice: what it writes must be the same the second time.
`run` may be left out. Nothing in here touches the database.
"""

import time
from collections.abc import Callable
from datetime import datetime

from tasks.errors import RunFailed

PROGRESS_SECONDS = 1.0  # one word of progress so often at most
MOST_NOTE = 200
MOST_WAIT_SECONDS = 30 * 86_400.0


class Outcome(Exception):
    """How a run ended, where it did not end with a result. May be raised or returned."""


class Retry(Outcome):
    """This attempt came to nothing; another one `after` so many seconds, or a dead letter where it was the last."""

    def __init__(self, after: float, reason: str = "") -> None:
        super().__init__(reason)
        self.after = _seconds(after)
        self.reason = reason or "The run asks to be tried again."


class Snooze(Outcome):
    """Not now: again in so many `seconds`, or at `until`. Spends no attempt, however often."""

    def __init__(self, seconds: float | None = None, *, until: datetime | None = None, reason: str = "") -> None:
        super().__init__(reason)
        if (seconds is None) == (until is None):
            raise ValueError("Snooze takes either seconds or until.")
        if until is not None and until.tzinfo is None:
            raise ValueError("Snooze's until needs a time zone.")
        self.seconds = None if seconds is None else _seconds(seconds)
        self.until = until
        self.reason = reason or "The run asks to be begun later."


class Cancel(Outcome):
    """Nobody wants this any more, or the run has stopped as it was asked: the task ends as cancelled."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason or "The run stopped itself."


class Fail(RunFailed, Outcome):
    """The run failed, by a code of its own. `permanent`: no further attempt, a dead letter at once."""

    def __init__(self, code: str, text: str, *, permanent: bool = True) -> None:
        super().__init__(code, text, permanent=permanent)


def _seconds(value: float) -> float:
    seconds = float(value)
    if not 0 <= seconds <= MOST_WAIT_SECONDS:
        raise ValueError(f"A wait is 0 to {MOST_WAIT_SECONDS:,.0f} seconds, not {value!r}.")
    return seconds


class Run:
    """One run, as its function sees it. `say` carries a word of progress out of the process."""

    def __init__(self, say: Callable[[int, str], None] = lambda _percent, _note: None) -> None:
        self._say = say
        self._said_at = float("-inf")
        self._unsaid: tuple[int, str] | None = None
        self.cancel_requested = False

    def progress(self, percent: float, note: str = "") -> None:
        """How far it is, 0 to 100, and in a few words at what. As often as you like: one a second is written."""
        self._unsaid = max(0, min(100, int(percent))), str(note).replace("\x00", "")[:MOST_NOTE]
        self.say_what_is_unsaid()

    def say_what_is_unsaid(self) -> None:
        """Also called from beside the run, so that the last word before a long silence gets out."""
        unsaid = self._unsaid
        if unsaid is not None and time.monotonic() - self._said_at >= PROGRESS_SECONDS:
            self._said_at, self._unsaid = time.monotonic(), None
            self._say(*unsaid)

    def ask_to_cancel(self) -> None:
        self.cancel_requested = True
