"""Write what came of a batch of attempts: rows, attempts, breaker, holds. One transaction, fenced, all or nothing.

Order of locks: endpoints that may be held, health rows, deliveries. A row whose lease was lost changes nothing: not
its delivery, not an attempt, not the breaker. Nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import structlog
from django.db import DatabaseError, transaction

from delivery.engine import claims, health_rows
from delivery.engine.attempts import line_of
from delivery.engine.bounds import DELAY_MOST, small, text, whole, within
from delivery.engine.health import Health, own_fault, streak_after, update_health
from delivery.engine.sql import literal
from delivery.engine.verdicts import Verdict, held_back
from delivery.latency import Recorder
from delivery.policy import holds, own_faults
from delivery.policy.outcomes import DecisionKind
from delivery.states import State
from kernel.live_hints import touched

log = structlog.get_logger(__name__)


def settle(verdicts: Sequence[Verdict], recorder: Recorder, worker: str) -> int:
    """Settle a batch; returns how many were still ours."""
    verdicts = sorted(verdicts, key=_id_of)
    with transaction.atomic():
        may_hold = {
            v.claimed.config.id
            for v in verdicts
            if v.decision.is_refusal
            or v.decision.kind is DecisionKind.GONE
            or own_fault(v) in own_faults.OF_THE_ENDPOINT
        }
        standing = health_rows.lock_endpoints(sorted(may_hold)) if may_hold else {}
        everyone = {v.claimed.config.id for v in verdicts}
        wanted = {v.claimed.config.id for v in verdicts if _concerns_health(v)}
        locked = [Health.of(row) for row in health_rows.lock_health(everyone, wanted)]
        if may_hold:
            _note_outdated(verdicts, standing)
            _hold_back(verdicts, {health.endpoint_id: health.streak for health in locked}, standing)
        kept = claims.settle(_columns(verdicts))
        ours = [verdict for verdict in verdicts if verdict.claimed.id in kept]
        claims.copy_attempts("".join([line_of(verdict, worker) for verdict in ours]))
        _promote(ours)
        update_health(locked, ours)
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
            health_rows.lock_health([verdict.claimed.config.id], [verdict.claimed.config.id])
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
    _note_outdated([verdict], health_rows.lock_endpoints([endpoint_id]))
    update_health([Health.of(row) for row in health_rows.lock_health([endpoint_id], [endpoint_id])], [verdict])


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
        streaks[pk] = streak_after(before, verdict)


def _id_of(verdict: Verdict) -> int:
    return verdict.claimed.id


def _concerns_health(verdict: Verdict) -> bool:
    claimed = verdict.claimed
    return verdict.decision.kind is not DecisionKind.SUCCESS or claimed.is_probe or bool(claimed.ordering_key)


@lru_cache(maxsize=256)
def _word(outcome: str) -> str:
    """Few words, asked again and again."""
    return text(outcome, 20) or '""'


_status = lru_cache(maxsize=1024)(small)


def _columns(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Most values are nothing or ordinary, and are not judged further: this runs for every delivery."""
    return {
        "ids": literal([v.claimed.id for v in verdicts]),
        "tokens": literal([v.claimed.token for v in verdicts]),
        "states": literal([v.state for v in verdicts]),
        "costs": literal([v.cost for v in verdicts]),
        "throttles": literal([v.throttle_count and small(v.throttle_count) for v in verdicts]),
        "rescues": literal([v.rescue_count and small(v.rescue_count) for v in verdicts]),
        "delays": literal([v.delay and within(v.delay, DELAY_MOST) for v in verdicts]),
        "outcomes": literal([_word(v.outcome) for v in verdicts]),
        "statuses": literal([(_status(v.result.status) or "NULL") if v.result else "NULL" for v in verdicts]),
        "ms": literal([whole(v.result.total_ms) if v.result else "NULL" for v in verdicts]),
        "errors": [text(v.error, 300) for v in verdicts]
        if any(v.error for v in verdicts)
        else literal(['""'] * len(verdicts)),
        "fingerprints": literal([(v.fingerprint and text(v.fingerprint, 32)) or '""' for v in verdicts]),
    }


def _promote(ours: Iterable[Verdict]) -> None:
    keys = {
        (v.claimed.config.id, v.claimed.ordering_key)
        for v in ours
        if v.claimed.ordering_key and v.state == State.DELIVERED.value
    }
    if keys:
        claims.promote(sorted(keys))


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
