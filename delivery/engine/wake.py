"""Tell the delivery workers that something is due, through the bell. Losing a wake-up costs at most a beat.

Messages expire soon, since a drain that ran in the meantime has seen the same rows.
"""

import structlog
from celery import current_app
from django.db import transaction

from kernel.wakeups import Wakeups

EXPIRES_SECONDS = 10
DRAIN = "delivery.drain"

log = structlog.get_logger(__name__)


def publish(name: str) -> bool:
    """Send one wake-up; whatever the broker does, this returns."""
    try:
        current_app.send_task(name, expires=EXPIRES_SECONDS, retry=False, ignore_result=True)
    except Exception as error:  # noqa: BLE001 - the beat will wake them; nobody waits for this
        log.warning("wake_up_lost", error=type(error).__name__)
        return False
    return True


_bell = Wakeups(publish, "wake")


def _ring() -> None:
    _bell.ring(DRAIN)


def wake() -> None:
    """After the current transaction commits (now, if there is none): somebody look at the deliveries."""
    transaction.on_commit(_ring, robust=True)
