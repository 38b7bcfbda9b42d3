"""What the beat puts right every few seconds, with SQL of its own: expired leases, stray rows, too long held.

The engine's second place with SQL that moves deliveries; the rules in `engine.claims` hold here too. Every sweep moves
deliveries in bounded chunks, skips rows that somebody holds, and may run twice at the same time without harm.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from delivery import lifecycle
from delivery.dead_letters import fingerprint
from delivery.engine import waiting
from delivery.engine.sql import execute
from delivery.engine.verdicts import POISON, POISON_RESCUES
from delivery.engine.wake import wake
from delivery.models import Delivery, Endpoint, EndpointHealth
from delivery.policy.breaker import MAX_COOLDOWN_SECONDS
from delivery.states import WAITING_STATES, State
from kernel.live_hints import touched

CHUNK = 1_000
HELD_TOO_LONG = "held_too_long"
KEYS, ROUNDS = 2_000, 10  # ordering keys looked at in one go, and how often in one sweep
FROM_THE_START = (0, "")
_turns_seen: tuple[int, str] = FROM_THE_START

log = structlog.get_logger(__name__)

_RESCUE = """
WITH expired AS MATERIALIZED (
    SELECT d.id FROM delivery_delivery d
    WHERE d.state = 'in_flight' AND d.leased_until < clock_timestamp() - interval '1 second'
    ORDER BY d.id LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
), rescued AS (
    UPDATE delivery_delivery d
    SET rescue_count = LEAST(d.rescue_count::int + 1, 32767), try_count = LEAST(d.try_count::int + 1, 32767),
        lease_token = NULL, leased_until = NULL,
        state = CASE WHEN d.rescue_count >= %(poison)s - 1 THEN 'dead_letter' ELSE 'failed' END,
        finished_at = CASE WHEN d.rescue_count >= %(poison)s - 1 THEN clock_timestamp() END,
        next_attempt_at = clock_timestamp(),
        last_outcome = CASE WHEN d.rescue_count >= %(poison)s - 1 THEN 'poison' ELSE 'rescued' END,
        last_status_code = NULL, last_error = %(error)s
    FROM expired x WHERE d.id = x.id
    RETURNING d.id, d.endpoint_id, d.state, d.rescue_count, d.try_count, d.redrive_count
), seen AS (
    INSERT INTO delivery_attempt (delivery_id, endpoint_id, number, outcome, error, started_at, queue_wait_ms,
                                  address, key_ids, is_probe, worker, retry_at, cycle)
    SELECT r.id, r.endpoint_id, r.try_count, 'rescued', %(error)s, clock_timestamp(), 0, '', '', false, '',
           CASE WHEN r.state = 'failed' THEN clock_timestamp() END, r.redrive_count
    FROM rescued r
)
SELECT id, endpoint_id, state, rescue_count FROM rescued
"""
LEASE_ENDED = "The worker died or lost its lease; whether the receiver got it is unknown."


def rescue(chunk: int = CHUNK) -> int:
    """Return deliveries whose lease has expired, with a visible attempt; the fifth time running they are poison."""
    total = 0
    while True:
        with transaction.atomic():
            parameters: dict[str, Any] = {"most": chunk, "poison": POISON_RESCUES, "error": LEASE_ENDED}
            rows = execute(_RESCUE, parameters).fetchall()
            dead = [(pk, endpoint_id) for pk, endpoint_id, state, _ in rows if state == State.DEAD_LETTER]
            for pk, endpoint_id in dead:
                name = fingerprint(endpoint_id, POISON, None, LEASE_ENDED)
                Delivery.objects.filter(pk=pk).update(fingerprint=name)
            if rows:
                touched("deliveries", "stats", *[f"delivery:{row[0]}" for row in rows[:100]])
                wake()
        total += len(rows)
        if rows:
            log.warning("leases_rescued", count=len(rows), poison=[pk for pk, _ in dead][:20])
        if len(rows) < chunk:
            return total


def promote_strays(*, thoroughly: bool = False) -> int:
    """Parked deliveries that wait for nothing, as after a repair by hand; `thoroughly`, whatever makes them so.

    Goes on where the last call ended, so that it comes by everybody however many keys are waited for.
    """
    global _turns_seen
    promoted = waiting.release_unordered(CHUNK, thoroughly=thoroughly)
    for _ in range(ROUNDS):
        keys, go_on_after = waiting.parked_in_front(_turns_seen, KEYS)
        if keys:
            promoted += lifecycle.give_turn(keys)
        _turns_seen = go_on_after or FROM_THE_START
        if go_on_after is None:
            break
    if promoted:
        log.warning("stray_turns_promoted", count=promoted)
        wake()
    return promoted


def give_up_held(chunk: int = CHUNK) -> int:
    """Deliveries that waited for a held endpoint for more than HELD_TOO_LONG_DAYS become dead letters."""
    cutoff = Now() - timedelta(days=settings.HELD_TOO_LONG_DAYS)
    held = Endpoint.objects.filter(is_held=True, deleted_at__isnull=True)
    # An open breaker holds too, but probes go on; what they hold for two weeks has nobody on the other side.
    open_long = Endpoint.objects.filter(
        health__breaker_state="open", health__cooldown_seconds__gte=MAX_COOLDOWN_SECONDS
    )
    total = 0
    for endpoint_id in (held | open_long).values_list("pk", flat=True).distinct():
        total += _give_up(endpoint_id, cutoff, chunk)
    return total


def _give_up(endpoint_id: int, cutoff: Any, chunk: int) -> int:
    days = settings.HELD_TOO_LONG_DAYS
    error = f"Its endpoint was held for more than {days} days."
    name = fingerprint(endpoint_id, HELD_TOO_LONG, None, error)
    total = 0
    while True:
        with transaction.atomic():
            rows = Delivery.objects.filter(
                endpoint_id=endpoint_id, state__in=WAITING_STATES, next_attempt_at__lt=cutoff
            )
            ids = list(
                rows.select_for_update(no_key=True, skip_locked=True)
                .order_by("next_attempt_at")
                .values_list("pk", flat=True)[:chunk]
            )
            Delivery.objects.filter(pk__in=ids).update(
                state=State.DEAD_LETTER,
                finished_at=Now(),
                last_outcome=HELD_TOO_LONG,
                last_status_code=None,
                last_error=error,
                fingerprint=name,
            )
        total += len(ids)
        if ids:
            log.warning("deliveries_held_too_long", endpoint=endpoint_id, count=len(ids))
            touched("deliveries", "stats", "alerts")
        if len(ids) < chunk:
            return total


def cancel_orphans() -> int:
    """Deliveries that were recorded while their endpoint was being deleted."""
    recently = Endpoint.objects.filter(deleted_at__gte=Now() - timedelta(days=1))
    total = 0
    for endpoint_id in recently.values_list("pk", flat=True):
        while cancelled := lifecycle.cancel_for_endpoint(endpoint_id, actor="sweep", reason="its endpoint was deleted"):
            total += cancelled
    return total


def add_missing_health() -> int:
    """An endpoint without a health row is never claimed; whoever made it by hand forgot."""
    missing = list(
        Endpoint.objects.filter(Q(health__isnull=True), deleted_at__isnull=True).values_list(
            "pk", F("breaker_cooldown_seconds")
        )
    )
    rows = [EndpointHealth(endpoint_id=pk, cooldown_seconds=cooldown) for pk, cooldown in missing]
    EndpointHealth.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)
