"""Wake-ups to the broker from a thread of their own: a sick broker can neither slow nor fail whoever rings.

A publish to a broker in trouble was measured at 4 to 40 s, so none happens in a request. Names of worker functions are
noted in this process; a daemon thread publishes them at most every 50 ms and drops what fails. A lost wake-up costs
seconds, since beat looks anyway, and nothing may depend on a message arriving. At the end of a short-lived process what
was rung gets a moment to go out. It must never publish from the caller's thread and never raise.

The names themselves stand on their own floor, in its `wake` module: this one knows none of them.
"""

import atexit
import os
import threading
from collections.abc import Callable
from functools import partial

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction

from kernel.messages import RUNG_AT_MOST

GOOD_SECONDS = 10  # two looks of beat: by then the rows have been seen
INTERVAL_SECONDS = 0.05
FAILED_PAUSE_SECONDS = 1.0
LAST_MOMENT_SECONDS = 1.0

log = structlog.get_logger(__name__)


def publish(name: str) -> bool:
    """Send one wake-up now; whatever the broker does, this returns. For workers: never call it in a request."""
    if not settings.CELERY_BROKER_URL:
        return True
    try:
        current_app.send_task(name, expires=GOOD_SECONDS, at_most=RUNG_AT_MOST, retry=False, ignore_result=True)
    except Exception as error:  # noqa: BLE001 - beat finds the work
        log.warning("wake_up_lost", worker=name, error=type(error).__name__)
        return False
    return True


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


_wakeups = Wakeups(publish, "wake")


def _ring(name: str) -> None:
    _wakeups.ring(name)


def after_commit(*names: str) -> None:
    """Wake these worker functions once the current transaction has committed; now, if there is none."""
    for name in names:
        transaction.on_commit(partial(_ring, name), robust=True)
