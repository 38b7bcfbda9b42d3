"""Wake the task workers after commit, through the bell. Losing a wake-up costs seconds: beat sweeps anyway."""

from functools import partial

import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction

from kernel.wakeups import Wakeups

EXPIRES_SECONDS = 60  # wake-ups must not pile up while no worker is there

log = structlog.get_logger(__name__)


def publish(name: str) -> bool:
    """Send one wake-up now; whatever the broker does, this returns. Never call it in a request."""
    if not settings.CELERY_BROKER_URL:
        return True
    try:
        current_app.send_task(name, expires=EXPIRES_SECONDS, ignore_result=True)
    except Exception as error:  # noqa: BLE001 - the sweep finds the work
        log.warning("wake_up_lost", worker=name, error=type(error).__name__)
        return False
    return True


_bell = Wakeups(publish, "tasks-wake")


def _ring(name: str) -> None:
    _bell.ring(name)


def after_commit(*names: str) -> None:
    """Wake the worker functions of these names once the current transaction has committed."""
    for name in names:
        transaction.on_commit(partial(_ring, name), robust=True)
