"""Wake-ups to the broker from a thread of their own: a sick broker can neither slow nor fail whoever rings.

A publish to a broker in trouble was measured at 4 to 40 s, so none happens in a request. Names are noted in this
process; a daemon thread hands them to `publish` at most every 50 ms and drops what fails. A lost wake-up costs seconds,
since beat looks anyway, and nothing may depend on a message arriving. At the end of a short-lived process what was rung
gets a moment to go out. It must never publish from the caller's thread and never raise.
"""

import atexit
import os
import threading
from collections.abc import Callable

INTERVAL_SECONDS = 0.05
FAILED_PAUSE_SECONDS = 1.0
LAST_MOMENT_SECONDS = 1.0


class Wakeups:
    """`publish` takes a name, and says whether the broker took it; it catches what the broker raises."""

    def __init__(self, publish: Callable[[str], bool], thread_name: str) -> None:
        self._publish = publish
        self._thread_name = thread_name
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._rung = threading.Event()
        self._quiet = threading.Event()
        self._pid = 0

    def ring(self, name: str) -> None:
        with self._lock:
            self._names.add(name)
            self._quiet.clear()
            if self._pid != os.getpid():  # a fork keeps the object and loses the thread
                self._pid = os.getpid()
                self._rung = threading.Event()
                threading.Thread(target=self._run, name=self._thread_name, daemon=True).start()
                atexit.register(self.let_out)
        self._rung.set()

    def let_out(self, seconds: float = LAST_MOMENT_SECONDS) -> None:
        """Wait, so long at most, until what was rung is published."""
        if self._pid == os.getpid():
            self._quiet.wait(seconds)

    def _take(self) -> list[str]:
        with self._lock:
            names, self._names = self._names, set()
        return sorted(names)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._rung.wait()
            self._rung.clear()
            are_out = [self._publish(name) for name in self._take()]
            with self._lock:
                if not self._names:
                    self._quiet.set()
            pause.wait(INTERVAL_SECONDS if all(are_out) else FAILED_PAUSE_SECONDS)
