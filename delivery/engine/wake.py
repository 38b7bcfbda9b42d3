"""Tell the workers that something is due. A wake-up is a convenience: losing one costs at most a beat.

`wake()` only sets a flag; a daemon thread publishes `delivery.drain`, at most every 50 ms, so that a sick broker can
neither slow nor fail a request (a publish was measured at 4 to 40 s). Messages expire soon, since a drain that ran in
the meantime has seen the same rows. It must never publish from the caller's thread and never raise.
"""

from __future__ import annotations

import os
import threading

import structlog
from celery import current_app
from django.db import transaction

INTERVAL_SECONDS = 0.05
EXPIRES_SECONDS = 10
FAILED_PAUSE_SECONDS = 1.0
DRAIN = "delivery.drain"

log = structlog.get_logger(__name__)


class Waker:
    """One flag and one thread for each process; the thread starts with the first wake-up after a fork."""

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._lock = threading.Lock()
        self._pid = 0

    def set(self) -> None:
        if self._pid != os.getpid():
            self._start()
        self._flag.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._flag = threading.Event()
            self._pid = os.getpid()
            threading.Thread(target=self._run, name="wake", daemon=True).start()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._flag.wait()
            self._flag.clear()
            pause.wait(INTERVAL_SECONDS if self._publish() else FAILED_PAUSE_SECONDS)

    def _publish(self) -> bool:
        try:
            current_app.send_task(DRAIN, expires=EXPIRES_SECONDS, retry=False, ignore_result=True)
        except Exception as error:  # noqa: BLE001 - the beat will wake them; nobody waits for this thread
            log.warning("wake_up_lost", error=type(error).__name__)
            return False
        return True


_waker = Waker()


def wake() -> None:
    """After the current transaction commits (now, if there is none): somebody look at the deliveries."""
    transaction.on_commit(_waker.set, robust=True)
