"""Write what came of a batch of attempts: rows, attempts, breaker, holds. One transaction, fenced, all or nothing.

Order of locks: endpoints that may be held, health rows, deliveries. A row whose lease was lost changes nothing: not
its delivery, not an attempt, not the breaker. Nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db import DatabaseError, transaction

from delivery import lifecycle
from delivery.engine import claims, pacing
from delivery.engine.attempts import line_of
from delivery.engine.bounds import DELAY_MOST, small, text, whole, within
from delivery.engine.verdicts import Verdict, held_back
from delivery.latency import Recorder
from delivery.policy import breaker as breakers
from delivery.policy import holds, own_faults
from delivery.policy import pace as paces
from delivery.policy.outcomes import DecisionKind, Failure
from delivery.states import State, WaitReason
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


def settle(verdicts: Sequence[Verdict], recorder: Recorder, worker: str) -> int:
    """Settle a batch; returns how many were still ours."""
    verdicts = sorted(verdicts, key=_id_of)
    with transaction.atomic():
        may_hold = {
            v.claimed.config.id
            for v in verdicts
            if v.decision.is_refusal
            or v.decision.kind is DecisionKind.GONE
            or _own_fault(v) in own_faults.OF_THE_ENDPOINT
        }
        standing = claims.lock_endpoints(sorted(may_hold)) if may_hold else {}
        everyone = {v.claimed.config.id for v in verdicts}
        wanted = {v.claimed.config.id for v in verdicts if _concerns_health(v)}
        locked = [Health.of(row) for row in claims.lock_health(everyone, wanted)]
        if may_hold:
            _note_outdated(verdicts, standing)
            _hold_back(verdicts, {health.endpoint_id: health.streak for health in locked}, standing)
        kept = claims.settle(_columns(verdicts))
        ours = [verdict for verdict in verdicts if verdict.claimed.id in kept]
        claims.copy_attempts("".join([line_of(verdict, worker) for verdict in ours]))
        _promote(ours)
        _update_health(locked, ours)
    _tell(ours, len(verdicts))
    for verdict in ours:
        claimed = verdict.claimed
        recorder.add(claimed.config.id, claimed.began_at, text(verdict.outcome, 20), claimed.waited_ms, verdict.result)
    return len(ours)


def settle_plainly(verdict: Verdict, recorder: Recorder, worker: str) -> int:
    """Settle one that could not be written whole: the state first, by itself; then, as far as each can be written, the
    bare attempt and the endpoint's health. What the receiver has must not be sent again for the sake of our records.
    """
    bare = replace(verdict, result=None, error="", fingerprint="", throttle_count=0, rescue_count=0)
    with transaction.atomic():
        if verdict.claimed.ordering_key:
            claims.lock_health([verdict.claimed.config.id], [verdict.claimed.config.id])
        kept = claims.settle(_columns([bare]))
        if kept:
            _promote([bare])
    if not kept:
        return 0
    _tell([verdict], 1)
    for ornament in (lambda: claims.copy_attempts(line_of(bare, worker)), lambda: _note_health(verdict)):
        try:
            with transaction.atomic():
                ornament()
        except (DatabaseError, ValueError) as error:
            log.error("result_written_in_part", delivery=verdict.claimed.id, error=type(error).__name__)
    recorder.add(verdict.claimed.config.id, verdict.claimed.began_at, text(verdict.outcome, 20), 0.0, None)
    return 1


def _note_health(verdict: Verdict) -> None:
    endpoint_id = verdict.claimed.config.id
    _note_outdated([verdict], claims.lock_endpoints([endpoint_id]))
    _update_health([Health.of(row) for row in claims.lock_health([endpoint_id], [endpoint_id])], [verdict])


def _note_outdated(verdicts: Iterable[Verdict], standing: dict[int, tuple[bool, int]]) -> None:
    """What settings that are no more brought in holds nobody: the endpoint was corrected, resumed or enabled since."""
    for verdict in verdicts:
        config = verdict.claimed.config
        is_attended, version = standing.get(config.id, (True, config.version))
        verdict.is_outdated = version != config.version and not is_attended


def _hold_back(
    verdicts: Sequence[Verdict], streaks: dict[int, holds.Streak], standing: dict[int, tuple[bool, int]]
) -> None:
    """Five refusals in a row are dead letters; what comes behind them, after the hold or from old settings, waits."""
    for verdict in verdicts:
        pk = verdict.claimed.config.id
        before = streaks.get(pk, holds.NO_STREAK)
        if verdict.decision.is_refusal and (before.needs_attention or verdict.is_outdated or standing[pk][0]):
            held_back(verdict)
        streaks[pk] = _streak_after(before, verdict)


def _streak_after(streak: holds.Streak, verdict: Verdict) -> holds.Streak:
    if verdict.is_outdated and not verdict.decision.is_success:
        return streak
    return holds.after_attempt(streak, verdict.decision, verdict.status, was_sent=verdict.result is not None)


def _id_of(verdict: Verdict) -> int:
    return verdict.claimed.id


def _concerns_health(verdict: Verdict) -> bool:
    claimed = verdict.claimed
    return verdict.decision.kind is not DecisionKind.SUCCESS or claimed.is_probe or bool(claimed.ordering_key)


def _columns(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    literal = claims.literal
    return {
        "ids": literal([v.claimed.id for v in verdicts]),
        "tokens": literal([v.claimed.token for v in verdicts]),
        "states": literal([v.state for v in verdicts]),
        "costs": literal([v.cost for v in verdicts]),
        "throttles": literal([small(v.throttle_count) for v in verdicts]),
        "rescues": literal([small(v.rescue_count) for v in verdicts]),
        "delays": literal([within(v.delay, DELAY_MOST) for v in verdicts]),
        "outcomes": literal([text(v.outcome, 20) or '""' for v in verdicts]),
        "statuses": literal([(small(v.result.status) or "NULL") if v.result else "NULL" for v in verdicts]),
        "ms": literal([whole(v.result.total_ms) if v.result else "NULL" for v in verdicts]),
        "errors": [text(v.error, 300) for v in verdicts]
        if any(v.error for v in verdicts)
        else literal(['""'] * len(verdicts)),
        "fingerprints": literal([text(v.fingerprint, 32) or '""' for v in verdicts]),
    }


def _promote(ours: Iterable[Verdict]) -> None:
    keys = {
        (v.claimed.config.id, v.claimed.ordering_key)
        for v in ours
        if v.claimed.ordering_key and v.state == State.DELIVERED.value
    }
    if keys:
        claims.promote(sorted(keys))


# --- health -------------------------------------------------------------------------------------------------------


def _update_health(locked: Sequence[Health], ours: Iterable[Verdict]) -> None:
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
        claims.save_health(changed)


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
    health.streak = _streak_after(health.streak, verdict)
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


def _own_fault(verdict: Verdict) -> own_faults.Kind | None:
    """What of ours was at fault. Our stopping is no fault, and a request that cannot be built is its row's alone."""
    result = verdict.result
    if verdict.decision.kind is not DecisionKind.OURS or result is None or result.failure is Failure.ABORTED:
        return None
    return own_faults.kind_of(result.rule)


def _note_own_fault(health: Health, verdict: Verdict) -> bool:
    """Count it, let the endpoint wait or hold it; True where it has gone on for so long that the breaker opens."""
    kind, now = _own_fault(verdict), health.now
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


def _tell(ours: Sequence[Verdict], total: int) -> None:
    if len(ours) < total:
        log.warning("leases_lost", count=total - len(ours))
    endpoints = {verdict.claimed.config.id for verdict in ours}
    topics = [f"endpoint:{pk}" for pk in endpoints] + [f"delivery:{verdict.claimed.id}" for verdict in ours]
    touched("deliveries", "stats", *topics)
    for verdict in ours:
        if verdict.state == State.DEAD_LETTER.value:
            config = verdict.claimed.config
            log.warning(
                "delivery_dead_lettered",
                delivery=verdict.claimed.id,
                endpoint=config.id,
                host=config.host,
                outcome=verdict.outcome,
                status=verdict.status,
                correlation_id=verdict.claimed.correlation_id,
            )
