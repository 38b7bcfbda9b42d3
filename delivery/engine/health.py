"""What attempts mean for their endpoints' health: breaker, pace, holds, faults of ours; and who is told.

Runs inside the settle's transaction, which has locked the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from delivery import lifecycle
from delivery.engine import health_rows, pacing
from delivery.engine.bounds import small, text, whole
from delivery.engine.verdicts import Verdict
from delivery.policy import breaker as breakers
from delivery.policy import holds, own_faults
from delivery.policy import pace as paces
from delivery.policy.outcomes import DecisionKind, Failure
from delivery.states import WaitReason
from kernel.live_hints import touched
from kernel.token_bucket import Bucket

SUCCESS_NOTED_SECONDS = 5.0
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Health:
    """A locked health row, as the policies see it."""

    endpoint_id: int
    now: datetime
    breaker: breakers.Breaker
    streak: holds.Streak
    pace: paces.Pace
    throttled_until: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    wait_reason: str
    bucket: Bucket
    p95_ms: float | None
    own_faults: own_faults.OwnFaults

    @classmethod
    def of(cls, row: Sequence[Any]) -> Health:
        breaker, streak, pace = breakers.Breaker(*row[2:9]), holds.Streak(*row[9:11]), paces.Pace(*row[11:19])
        until, success, failure, reason, tokens, tokens_at, p95_ms = row[19:26]
        faults = own_faults.OwnFaults(*row[26:29])
        bucket = Bucket(tokens, tokens_at)
        return cls(row[0], row[1], breaker, streak, pace, until, success, failure, reason, bucket, p95_ms, faults)

    def saved(self) -> tuple[Any, ...]:
        b, p = self.breaker, self.pace
        return (
            str(b.breaker_state),
            whole(b.consecutive_failures),
            whole(b.cooldown_seconds),
            b.opened_at,
            b.probe_at,
            b.probe_token,
            b.probe_until,
            text(self.streak.refusal_kind, 200),
            whole(self.streak.refusal_count),
            p.per_second,
            p.ceiling,
            p.clock,
            whole(p.sent),
            p.lowered_at,
            p.probe_until,
            whole(p.streak),
            small(p.status),
            self.throttled_until,
            self.last_success_at,
            self.last_failure_at,
            self.wait_reason,
            self.bucket.tokens,
            self.bucket.tokens_at,
            self.own_faults.kind,
            whole(self.own_faults.count),
            self.own_faults.since,
            self.endpoint_id,
        )


def update_health(locked: Sequence[Health], ours: Iterable[Verdict]) -> None:
    if not locked:
        return
    results: dict[int, list[Verdict]] = {}
    for verdict in ours:
        results.setdefault(verdict.claimed.config.id, []).append(verdict)
    changed = []
    for health in locked:
        before = replace(health)
        for verdict in results.get(health.endpoint_id, ()):
            _after_attempt(health, verdict)
        if health != before:
            changed.append(health.saved())
            _tell_breaker(health, before, results[health.endpoint_id][0])
    if changed:
        health_rows.save_health(changed)


def _after_attempt(health: Health, verdict: Verdict) -> None:
    claimed, decision, now = verdict.claimed, verdict.decision, health.now
    policy = claimed.config.breaker
    threshold = breakers.effective_threshold(policy.threshold, health.p95_ms)
    effect = breakers.effect_of(decision) if _asked_the_receiver(verdict) else breakers.Effect.VOID
    if _note_own_fault(health, verdict):
        effect, threshold = breakers.Effect.FAILURE, 1
    health.breaker = breakers.after_attempt(
        health.breaker,
        effect,
        policy=replace(policy, threshold=threshold),
        began_at=datetime.fromtimestamp(claimed.began_at, UTC),
        now=now,
        probe_token=claimed.token if claimed.is_probe else None,
    )
    health.streak = streak_after(health.streak, verdict)
    if decision.kind is DecisionKind.SUCCESS:
        if health.last_success_at is None or (now - health.last_success_at).total_seconds() > SUCCESS_NOTED_SECONDS:
            health.last_success_at = now
    elif decision.kind is not DecisionKind.OURS:
        health.last_failure_at = now
    _pace(health, verdict)
    if verdict.is_outdated:
        return
    if decision.kind is DecisionKind.GONE:
        lifecycle.disable_endpoint(claimed.config.id, reason="The receiver answered 410: it is gone for good.")
    elif decision.is_refusal and health.streak.needs_attention:
        lifecycle.need_attention(claimed.config.id, reason=holds.hold_reason(health.streak))


def _asked_the_receiver(verdict: Verdict) -> bool:
    """Not where the fault was ours, or the request could not even be made: that says nothing about it."""
    return verdict.decision.kind is not DecisionKind.OURS and verdict.result is not None


def _pace(health: Health, verdict: Verdict) -> None:
    """What the answer says of how fast we may send. What never went out says nothing."""
    claimed, decision = verdict.claimed, verdict.decision
    began_at = datetime.fromtimestamp(claimed.began_at, UTC)
    if decision.kind is DecisionKind.THROTTLE:
        told = decision.pause_endpoint_seconds
        answer = pacing.Throttled(claimed.config.id, claimed.config.schedule, told, verdict.status, began_at)
        before = health.throttled_until
        health.pace, health.throttled_until, bucket = pacing.after_throttled(health.pace, before, answer, health.now)
        health.bucket = bucket or health.bucket
        if health.throttled_until != before:
            health.wait_reason = WaitReason.THROTTLED.value
    elif paces.is_news(health.pace, began_at):
        was_asked = _asked_the_receiver(verdict)
        health.pace = paces.let_pass(health.pace) if was_asked else paces.not_sent(health.pace, health.now)


def own_fault(verdict: Verdict) -> own_faults.Kind | None:
    """What of ours was at fault. Our stopping is no fault, and a request that cannot be built is its row's alone."""
    result = verdict.result
    if verdict.decision.kind is not DecisionKind.OURS or result is None or result.failure is Failure.ABORTED:
        return None
    return own_faults.kind_of(result.rule)


def _note_own_fault(health: Health, verdict: Verdict) -> bool:
    """Count it, let the endpoint wait or hold it; True where it has gone on for so long that the breaker opens."""
    kind, now = own_fault(verdict), health.now
    if verdict.is_outdated or (kind is None and not _asked_the_receiver(verdict)):
        return False
    health.own_faults = own_faults.after_attempt(health.own_faults, kind, now)
    if kind is None:
        return False
    until = now + timedelta(seconds=own_faults.pause_seconds(health.own_faults, now))
    if health.throttled_until is None or until > health.throttled_until:
        health.throttled_until, health.wait_reason = until, WaitReason.OWN_FAULT.value
    if own_faults.needs_attention(health.own_faults):
        lifecycle.need_attention(verdict.claimed.config.id, reason=own_faults.hold_reason(health.own_faults))
    return own_faults.opens_breaker(health.own_faults, now)


def _tell_breaker(health: Health, before: Health, verdict: Verdict) -> None:
    if health.breaker.breaker_state == before.breaker.breaker_state:
        return
    config = verdict.claimed.config
    log.warning(
        "breaker_moved",
        endpoint=config.id,
        host=config.host,
        was=str(before.breaker.breaker_state),
        now=str(health.breaker.breaker_state),
        failures=health.breaker.consecutive_failures,
        cooldown_seconds=health.breaker.cooldown_seconds,
    )
    touched(f"endpoint:{config.id}", "alerts")


def streak_after(streak: holds.Streak, verdict: Verdict) -> holds.Streak:
    if verdict.is_outdated and not verdict.decision.is_success:
        return streak
    was_sent = verdict.result is not None
    return holds.after_attempt(streak, verdict.decision, verdict.status, was_sent=was_sent, error=verdict.error)
