"""Celery entry points of the inbox."""

from celery import shared_task
from django.utils import timezone

from webhooks import inbox, retention


@shared_task(name="webhooks.sweep_inbox", ignore_result=True)
def sweep_inbox() -> None:
    now = timezone.now()
    inbox.sweep(now)
    retention.prune(now)
