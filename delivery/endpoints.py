"""The verbs of an endpoint: create, update, pause, resume, enable, delete, test; from their own modules lift a throttle
or fix its rate (`endpoint_throttle`), rotate or end a secret (`endpoint_rotation`).

Each takes who did it and why, is one transaction, counts `version` up (engines cache by it), and leaves one line in
the audit trail and in the log (`endpoint_changes`). Replay is in `delivery.replays`. No verb writes a delivery's
state: that is `delivery.lifecycle`'s. No verb asks the name service: the edges do, with
`endpoint_rules.check_destination`, before the transaction.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any

import structlog
from django.db import transaction
from django.db.models.functions import Now

from delivery import dead_letters, endpoint_rules, events, lifecycle
from delivery.endpoint_changes import changed, locked, look_again, save
from delivery.endpoint_rotation import SECRET_OVERLAP, end_secret, rotate_secret, secret_for
from delivery.endpoint_throttle import NO_THROTTLE, fix_rate, forget_health, lift_throttle
from delivery.engine import waiting
from delivery.engine.wake import wake
from delivery.errors import WrongState
from delivery.models import Delivery, Endpoint, EndpointHealth, Event
from delivery.policy import retry
from delivery.replays import TEST_EVENT, Replayed, replay
from kernel import clock, correlation
from kernel.live_hints import touched
from kernel.secrets import unreadable_fields

__all__ = [
    "NO_THROTTLE",
    "SECRET_OVERLAP",
    "Replayed",
    "WrongState",
    "create",
    "delete",
    "enable",
    "end_secret",
    "fix_rate",
    "gives_up",
    "lift_throttle",
    "pause",
    "replay",
    "resume",
    "rotate_secret",
    "send_test",
    "update",
]

CANCEL_BUDGET_SECONDS = 10.0
DELETED = "its endpoint was deleted"
PAUSED_BEFORE = "paused by a person before that"

log = structlog.get_logger(__name__)


def create(*, actor: str, reason: str = "", secret: str = "", signature_scheme: str = "v1", **values: Any) -> Endpoint:
    """A new endpoint with its health row and a secret (brought along, or made by us; it is on the returned object).

    Raises InvalidEndpoint, whose `errors` name each field.
    """
    values.setdefault("url", "")
    cleaned = endpoint_rules.clean(values)
    secret, public_key = secret_for(secret, signature_scheme)
    with transaction.atomic():
        endpoint = Endpoint.objects.create(
            **cleaned,
            signature_scheme=signature_scheme,
            secret=secret,
            public_key=public_key,
            secret_changed_at=clock.now(),
        )
        EndpointHealth.objects.create(endpoint=endpoint, cooldown_seconds=endpoint.breaker_cooldown_seconds)
        changed(endpoint, "create", actor, reason)
    return endpoint


def update(endpoint: Endpoint | int, changes: dict[str, Any], *, actor: str, reason: str = "") -> Endpoint:
    """Change what is given. Secrets and state have verbs of their own. Raises InvalidEndpoint, WrongState.

    A new URL begins anew: breaker, counters, refusals and pace were of the old one.
    """
    with transaction.atomic():
        current = locked(endpoint)
        standing = endpoint_rules.standing_of(current)
        cleaned = endpoint_rules.clean(changes, standing)
        for name, value in cleaned.items():
            setattr(current, name, value)
        save(current, *cleaned)
        if "url" in cleaned and cleaned["url"] != standing.get("url"):
            forget_health(current)
        elif cleaned:
            look_again(current)
        if "breaker_cooldown_seconds" in cleaned:
            EndpointHealth.objects.filter(endpoint=current, breaker_state="closed").update(
                cooldown_seconds=current.breaker_cooldown_seconds
            )
        freed = lifecycle.forget_order(current.pk) if _differs("ordering_key", cleaned, standing) else 0
        changed(current, "update", actor, reason, fields=sorted(cleaned), **({"freed": freed} if freed else {}))
    if _differs("retry_profile", cleaned, standing) or _differs("retry_delays", cleaned, standing):
        _hasten(current)
    return current


def _differs(name: str, cleaned: dict[str, Any], standing: dict[str, Any]) -> bool:
    return name in cleaned and cleaned[name] != standing[name]


def _hasten(endpoint: Endpoint) -> None:
    """What waits for a retry goes when the new schedule says so, if that is sooner; in chunks, for at most 10 s."""
    schedule = retry.schedule_for(endpoint.retry_profile, endpoint.retry_delays)
    moved, after, deadline = 0, 0, time.monotonic() + CANCEL_BUDGET_SECONDS
    while time.monotonic() < deadline:
        with transaction.atomic():
            count, go_on_after = waiting.hasten(endpoint.pk, schedule, after=after)
        moved += count
        if go_on_after is None:
            break
        after = go_on_after
    if moved:
        log.info("deliveries_hastened", endpoint=endpoint.pk, count=moved)
        touched("deliveries", "stats")
        wake()


def pause(endpoint: Endpoint | int, *, actor: str, reason: str) -> Endpoint:
    """A person's switch: deliveries are held until `resume`. Pausing twice keeps the first time."""
    with transaction.atomic():
        current = locked(endpoint)
        current.paused_at = current.paused_at or clock.now()
        if not (current.disabled_at or current.attention_at):
            current.hold_reason = (reason or f"paused by {actor}")[:200]
        save(current, "paused_at", "hold_reason")
        changed(current, "pause", actor, reason)
    return current


def resume(endpoint: Endpoint | int, *, actor: str, reason: str = "", redrive_refused: bool = True) -> Endpoint:
    """Ends a pause, and the hold after repeated refusals: held deliveries go out, and with them, unless
    `redrive_refused` is false, the few dead letters that the refusals made.

    Breaker, counters and learned pace begin anew. A disabled endpoint needs `enable`.
    """
    with transaction.atomic():
        current = locked(endpoint)
        if current.disabled_at:
            raise WrongState(f"This endpoint is disabled ({current.hold_reason}). Enable it instead.")
        burnt = dead_letters.burnt_by_refusals(current) if current.attention_at and redrive_refused else []
        current.paused_at = current.attention_at = None
        _release(current, "paused_at", "attention_at")
        changed(current, "resume", actor, reason, redriven=len(burnt))
        if burnt:
            lifecycle.redrive(burnt, actor=actor, reason=reason or "its endpoint was resumed")
    return current


def enable(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Endpoint:
    """Undoes what policy switched off (410, or needs attention). A pause stays a pause.

    Breaker, counters and learned pace begin anew.
    """
    with transaction.atomic():
        current = locked(endpoint)
        if current.disabled_at or current.attention_at:
            current.hold_reason = (
                PAUSED_BEFORE  # for the pause that may be left: the reason that stood there was policy's
            )
        current.disabled_at = current.attention_at = None
        _release(current, "disabled_at", "attention_at")
        changed(current, "enable", actor, reason)
    return current


def delete(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> int:
    """Marks it deleted at once (nothing is sent any more) and cancels what waits for it, in chunks, for at most 10 s.

    Returns how many were cancelled; a sweep does the rest. The row stays: deliveries point to it.
    """
    with transaction.atomic():
        current = locked(endpoint)
        current.deleted_at = clock.now()
        current.secret, current.earlier_secrets = "", None
        current.hold_reason = DELETED
        lost = unreadable_fields(current)  # nobody will mend them any more
        for name in lost:
            setattr(current, name, None if name == "headers" else "")
        save(current, "deleted_at", "hold_reason", "secret", "earlier_secrets", *lost)
        changed(current, "delete", actor, reason)
    cancelled, deadline = 0, time.monotonic() + CANCEL_BUDGET_SECONDS
    while chunk := lifecycle.cancel_for_endpoint(current.pk, actor=actor, reason=DELETED):
        cancelled += chunk
        if time.monotonic() > deadline:
            break
    return cancelled


def send_test(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Delivery:
    """One event `endpoint.test` to this endpoint only, whatever its filter.

    Its first attempt goes out at once, beside the queue: neither pause nor hold, breaker, wait, pace or rate keep it,
    since it is how an operator finds out whether they may end. It decides nothing of them, but a refusal, a success or
    a 429 counts like any other. What has to be tried again waits with all others.
    """
    with transaction.atomic():
        current = locked(endpoint)
        delivery = _record_test(current)
        EndpointHealth.objects.filter(endpoint=current).update(test_id=delivery.pk)
        changed(current, "send_test", actor, reason, delivery=delivery.pk)
    return delivery


def gives_up(endpoint: Endpoint) -> str:
    """In words, when a delivery to it becomes a dead letter: "after 5 attempts, about 8 minutes after the first"."""
    schedule = retry.schedule_for(endpoint.retry_profile, endpoint.retry_delays)
    return retry.gives_up_after(schedule, endpoint.max_attempts)


def _release(endpoint: Endpoint, *cleared: str) -> None:
    """Forget the refusals, and let what waits go."""
    endpoint.hold_reason = endpoint.hold_reason if endpoint.paused_at else ""
    save(endpoint, *cleared, "hold_reason")
    forget_health(endpoint)


def _record_test(endpoint: Endpoint) -> Delivery:
    now = clock.now()
    payload = events.payload_bytes(TEST_EVENT, now, {"endpoint": str(endpoint.pk), "message": "A test from Roundtrip."})
    event = Event.objects.create(
        uid=f"evt_{secrets.token_hex(14)}",
        type=TEST_EVENT,
        subscriber=endpoint.subscriber,
        payload=payload,
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        correlation_id=correlation.current(),
        delivery_count=1,
        occurred_at=now,
    )
    delivery = Delivery.objects.create(event=event, endpoint=endpoint, next_attempt_at=Now())
    delivery.refresh_from_db(fields=["next_attempt_at"])
    wake()
    return delivery
