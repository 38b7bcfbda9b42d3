"""Wake workers after commit without waiting for the broker.

A publish to a sick broker blocks for seconds, so none happens in a request: names are noted in this process, and a
daemon thread publishes them at most every 50 ms and drops them on error. A lost wake-up costs seconds, since beat
sweeps anyway. Nothing may depend on a message arriving.
"""

import os
import threading
from functools import partial

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction

INTERVAL_SECONDS = 0.05
EXPIRES_SECONDS = 60  # wake-ups must not pile up while no worker is there

log = structlog.get_logger(__name__)


class _Bell:
    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._rung = threading.Event()
        self._pid = 0

    def ring(self, name: str) -> None:
        with self._lock:
            self._names.add(name)
            if self._pid != os.getpid():  # a fork keeps the object and loses the thread
                self._pid = os.getpid()
                threading.Thread(target=self._run, name="tasks-wake", daemon=True).start()
        self._rung.set()

    def take(self) -> list[str]:
        with self._lock:
            names, self._names = self._names, set()
        return sorted(names)

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._rung.wait()
            self._rung.clear()
            for name in self.take():
                publish(name)
            pause.wait(INTERVAL_SECONDS)


def publish(name: str) -> None:
    """Send one wake-up now; whatever the broker does, this returns. Never call it in a request."""
    if not settings.CELERY_BROKER_URL:
        return
    try:
        current_app.send_task(name, expires=EXPIRES_SECONDS, ignore_result=True)
    except Exception as error:  # noqa: BLE001 - the sweep finds the work
        log.warning("wake_up_lost", worker=name, error=type(error).__name__)


_bell = _Bell()


def _ring(name: str) -> None:
    _bell.ring(name)


def after_commit(*names: str) -> None:
    """Wake the worker functions of these names once the current transaction has committed."""
    for name in names:
        transaction.on_commit(partial(_ring, name), robust=True)
