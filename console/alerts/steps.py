"""The alert rule of sweeps: a step that breaks at each run leaves work lying that nobody else finds."""

from datetime import datetime, timedelta

from django.urls import reverse

from console.alerts.findings import Finding
from kernel.models import BrokenStep

LATELY = timedelta(days=1)  # a step that no process runs any more is no alert for ever


def broken(now: datetime) -> list[Finding]:
    return [
        Finding(
            "step_broke",
            row.name,
            f"A step of a sweep breaks: {row.name}",
            f"{row.count:,} times since {row.since:%Y-%m-%d %H:%M:%S} UTC, last with {row.error}. What it would find "
            "or repair is left lying; the other steps go on.",
            "The workers' log has the traceback (step_broke). It ends by itself with the next good run.",
            reverse("start"),
            row.count,
        )
        for row in BrokenStep.objects.filter(last_at__gt=now - LATELY).order_by("name")
    ]
