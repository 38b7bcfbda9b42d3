"""Celery entry points of the delivery side. Each is a wake-up: run twice, late or never, it costs latency only."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.conf import settings

from delivery import latency
from delivery.engine import process
from delivery.engine.wake import DRAIN
from delivery.maintenance import leftovers, partitions, retention, sweeps
from kernel import clock, steps

MAINTAIN_BUDGET_SECONDS = 300.0


@shared_task(name=DRAIN, ignore_result=True)
def drain() -> None:
    """Send what is due until nothing is."""
    process.drain()


@shared_task(name="delivery.rescue", ignore_result=True)
def rescue() -> None:
    """Put right what a dead worker or a race left behind."""
    repairs = (sweeps.rescue, sweeps.promote_strays, sweeps.cancel_orphans, leftovers.sweep, sweeps.add_missing_health)
    for step in repairs:
        steps.guarded(f"delivery: {step.__name__.replace('_', ' ')}", step)


@shared_task(name="delivery.refresh_latency", ignore_result=True)
def refresh_latency() -> None:
    """Percentiles of every endpoint that had attempts lately, and which are slow."""
    steps.guarded("delivery: latency", lambda: latency.refresh(now=clock.now()))


@shared_task(name="delivery.maintain", ignore_result=True)
def maintain() -> None:
    """Partitions ahead, old ones dropped, old rows pruned, what was held too long given up."""
    now = clock.now()
    last_day = (now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS)).date()
    steps.guarded("delivery: partitions ahead", lambda: partitions.ensure(now=now))
    steps.guarded("delivery: partitions behind", lambda: partitions.drop_before(last_day))
    steps.guarded("delivery: held too long", sweeps.give_up_held)
    steps.guarded("delivery: strays", lambda: sweeps.promote_strays(thoroughly=True))
    steps.guarded("delivery: retention", lambda: retention.prune(now=now, budget_seconds=MAINTAIN_BUDGET_SECONDS))
