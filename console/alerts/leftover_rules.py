"""The alert rule about what a demo left in production."""

from datetime import datetime

from console.alerts.findings import Finding
from console.health import leftovers


def demo(_now: datetime) -> list[Finding]:
    return [
        Finding(
            "demo_leftover",
            one.subject,
            f"The demo left something: {one.words}",
            "This database was a demo's, and what opened the demo lies in files of its data folder.",
            one.remedy,
            one.link,
        )
        for one in leftovers.found()
    ]
