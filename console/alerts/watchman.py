"""Who watches the watchers: where the alert rules have not been looked at for a while, a web process looks itself.

Alerts are evaluated by beat through a worker; if either is dead, the alert that says so could never open. Every web
process asks at its heartbeat, and takes over while the evaluator is silent. It must never evaluate while beat does.
"""

from datetime import timedelta

import structlog

from console.alerts import evaluate
from console.health import heartbeat
from kernel import clock

SILENT = timedelta(seconds=90)

log = structlog.get_logger(__name__)


def look() -> None:
    """Evaluate the alert rules if nobody did for 90 seconds."""
    now = clock.now()
    last = heartbeat.last_seen(heartbeat.EVALUATOR)
    if last is not None and now - last < SILENT:
        return
    if last is not None:  # at the very first start there was nobody who could have fallen silent
        log.warning("alert_evaluator_silent", last=last.isoformat())
    evaluate.evaluate(now)
