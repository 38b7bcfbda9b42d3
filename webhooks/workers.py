"""Celery entry points of the inbox."""

from celery import shared_task

from kernel import clock, steps
from webhooks import inbox, retention
from webhooks.wake import SWEEP_INBOX


@shared_task(name=SWEEP_INBOX, ignore_result=True)
def sweep_inbox() -> None:
    now = clock.now()
    steps.guarded("webhooks: inbox", lambda: inbox.sweep(now))
    steps.guarded("webhooks: retention", lambda: retention.prune(now))
