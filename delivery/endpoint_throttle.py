"""The verbs of an endpoint's throttle: lift it, or make the learned pace its rate; and what beginning anew forgets."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from delivery.endpoint_changes import changed, locked, save
from delivery.engine import waiting
from delivery.engine.wake import wake
from delivery.errors import WrongState
from delivery.models import Endpoint, EndpointHealth
from delivery.policy import pace as paces
from delivery.policy.pace import Pace
from delivery.states import BreakerState

NO_THROTTLE: dict[str, Any] = {
    "throttled_until": None,
    "wait_reason": "",
    "pace_per_second": None,
    "pace_ceiling": None,
    "pace_clock": 0.0,
    "pace_sent": 0,
    "pace_probe_until": None,
    "throttle_streak": 0,
    "throttle_status": 0,
    "tokens": None,
    "tokens_at": None,
}


def lift_throttle(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Endpoint:
    """Forget the wait that the receiver asked for, and the pace learned from its answers. Holds and breaker stay."""
    with transaction.atomic():
        current = locked(endpoint)
        EndpointHealth.objects.filter(endpoint=current).update(**NO_THROTTLE, pace_lowered_at=Now())
        waiting.end_waits(current.pk)
        wake()
        changed(current, "lift_throttle", actor, reason)
    return current


def fix_rate(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Endpoint:
    """Make the learned pace the endpoint's own limit (`rate_per_minute`, one at a time), and forget what was learned.

    Raises WrongState where no pace is known. A wait that the receiver asked for goes on.
    """
    with transaction.atomic():
        current = locked(endpoint)
        health = EndpointHealth.objects.select_for_update(no_key=True).get(endpoint=current)
        per_second = Pace.of(health).per_second
        if per_second is None:
            raise WrongState("No pace is known for this endpoint: it was not asked to slow down lately.")
        current.rate_per_minute = max(1, int(per_second * 60))
        current.rate_burst = max(1, int(per_second * paces.BURST_SECONDS))
        save(current, "rate_per_minute", "rate_burst")
        waits = {"throttled_until": health.throttled_until, "wait_reason": health.wait_reason}
        EndpointHealth.objects.filter(endpoint=current).update(**{**NO_THROTTLE, **waits}, pace_lowered_at=Now())
        changed(current, "fix_rate", actor, reason, rate_per_minute=current.rate_per_minute)
    return current


def forget_health(endpoint: Endpoint) -> None:
    """Begin anew: breaker closed, counters at nought, no refusals, no wait, no pace. Answers to what is under
    way by now bring none of them back: they began before `opened_at` and `pace_lowered_at`."""
    EndpointHealth.objects.filter(endpoint=endpoint).update(
        breaker_state=BreakerState.CLOSED,
        opened_at=Now(),
        consecutive_failures=0,
        cooldown_seconds=endpoint.breaker_cooldown_seconds,
        probe_at=None,
        probe_token=None,
        probe_until=None,
        refusal_kind="",
        refusal_count=0,
        own_fault_kind="",
        own_fault_count=0,
        own_fault_since=None,
        **NO_THROTTLE,
        pace_lowered_at=Now(),
    )
    waiting.end_waits(endpoint.pk)
    wake()
