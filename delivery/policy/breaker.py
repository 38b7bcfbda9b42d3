"""The circuit breaker of an endpoint, as pure functions on a frozen state.

    closed ── threshold failures in a row ──▶ open ── cooldown over, one probe taken ──▶ half_open
      ▲                                        ▲                                           │   │
      │                                        └──── probe failed: cooldown doubled ───────┘   │
      └─────────────────────────────── probe succeeded ────────────────────────────────────────┘

A probe that nobody brings back expires and another may be taken. Results of attempts that began before the breaker
opened change nothing, and while it is open or half open only the probe's result does. It never counts attempts of a
delivery: a failed probe costs none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from delivery.policy.outcomes import Decision, DecisionKind

MAX_COOLDOWN_SECONDS = 3600
SLOW_P95_MS = 5000.0


class Effect(StrEnum):
    """What an attempt's outcome means to the breaker."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"  # 4xx, throttled, blocked: neither counts nor resets
    VOID = "void"  # our own fault, or released: as if it had not been made


class Admission(StrEnum):
    SEND = "send"
    PROBE = "probe"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Breaker:
    """As stored in EndpointHealth. `opened_at` stays after closing: it tells old results from new ones."""

    breaker_state: str = "closed"
    consecutive_failures: int = 0
    cooldown_seconds: int = 300
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    probe_token: UUID | None = None
    probe_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    threshold: int = 10
    cooldown_seconds: int = 300


def effect_of(decision: Decision) -> Effect:
    if decision.is_success:
        return Effect.SUCCESS
    if decision.counts_for_breaker:
        return Effect.FAILURE
    return Effect.VOID if decision.kind is DecisionKind.OURS else Effect.NEUTRAL


def effective_threshold(threshold: int, p95_ms: float | None) -> int:
    """Half the threshold for an endpoint whose p95 is over 5 s: it is on its way down (specification S2.8)."""
    return max(1, threshold // 2) if p95_ms is not None and p95_ms > SLOW_P95_MS else threshold


def admission(breaker: Breaker, now: datetime) -> Admission:
    """May a delivery to this endpoint be sent now? PROBE: exactly one, by `take_probe`."""
    if breaker.breaker_state == "closed":
        return Admission.SEND
    if breaker.breaker_state == "open":
        ripe = breaker.probe_at is None or now >= breaker.probe_at
    else:
        ripe = breaker.probe_until is None or now >= breaker.probe_until
    return Admission.PROBE if ripe else Admission.HOLD


def take_probe(breaker: Breaker, *, now: datetime, token: UUID, lease_seconds: float) -> Breaker | None:
    """The breaker with this probe on its way, or None where none may be taken now."""
    if admission(breaker, now) is not Admission.PROBE:
        return None
    until = now + timedelta(seconds=lease_seconds)
    return replace(breaker, breaker_state="half_open", probe_token=token, probe_until=until)


def after_attempt(
    breaker: Breaker,
    effect: Effect,
    *,
    policy: BreakerPolicy,
    began_at: datetime,
    now: datetime,
    probe_token: UUID | None = None,
) -> Breaker:
    """The breaker after one attempt; the same object where nothing changed. `policy.threshold` is the effective one."""
    if breaker.breaker_state != "closed":
        is_the_probe = (
            breaker.breaker_state == "half_open" and probe_token is not None and probe_token == breaker.probe_token
        )
        return _after_probe(breaker, effect, policy, now) if is_the_probe else breaker
    if breaker.opened_at is not None and began_at < breaker.opened_at:
        return breaker
    if effect is Effect.SUCCESS:
        return replace(breaker, consecutive_failures=0) if breaker.consecutive_failures else breaker
    if effect is not Effect.FAILURE:
        return breaker
    failures = breaker.consecutive_failures + 1
    if failures < policy.threshold:
        return replace(breaker, consecutive_failures=failures)
    return _open(replace(breaker, consecutive_failures=failures), policy.cooldown_seconds, now)


def _after_probe(breaker: Breaker, effect: Effect, policy: BreakerPolicy, now: datetime) -> Breaker:
    if effect is Effect.SUCCESS:
        return replace(
            breaker,
            breaker_state="closed",
            consecutive_failures=0,
            cooldown_seconds=policy.cooldown_seconds,
            probe_at=None,
            probe_token=None,
            probe_until=None,
        )
    if effect is Effect.FAILURE:
        failed = replace(breaker, consecutive_failures=breaker.consecutive_failures + 1)
        return _open(failed, min(MAX_COOLDOWN_SECONDS, breaker.cooldown_seconds * 2), now)
    # The receiver lives but said neither yes nor "I am broken": ask again after the same cooldown. Our own fault says
    # nothing about it: ask again at once.
    wait = breaker.cooldown_seconds if effect is Effect.NEUTRAL else 0
    return replace(
        breaker,
        breaker_state="open",
        probe_at=now + timedelta(seconds=wait),
        probe_token=None,
        probe_until=None,
    )


def _open(breaker: Breaker, cooldown_seconds: int, now: datetime) -> Breaker:
    cooldown_seconds = min(MAX_COOLDOWN_SECONDS, cooldown_seconds)
    return replace(
        breaker,
        breaker_state="open",
        cooldown_seconds=cooldown_seconds,
        opened_at=now,
        probe_at=now + timedelta(seconds=cooldown_seconds),
        probe_token=None,
        probe_until=None,
    )
