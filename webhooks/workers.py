"""Celery entry points of the inbox."""

from celery import shared_task

from kernel import clock
from webhooks import inbox, retention
from webhooks.wake import SWEEP_INBOX


@shared_task(name=SWEEP_INBOX, ignore_result=True)
def sweep_inbox() -> None:
    now = clock.now()
    inbox.sweep(now)
    retention.prune(now)
