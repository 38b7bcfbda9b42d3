"""The verbs of an endpoint: create, update, pause, resume, enable, delete, test; from their own modules lift a throttle
or fix its rate (`endpoint_throttle`), rotate or end a secret (`endpoint_rotation`).

Each takes who did it and why, is one transaction, counts `version` up (engines cache by it), and leaves one line in
the audit trail and in the log (`endpoint_changes`). Replay is in `delivery.replays`. No verb writes a delivery's
state: that is `delivery.lifecycle`'s. No verb asks the name service: the edges do, with
`endpoint_rules.check_destination`, before the transaction.
"""

from __future__ import annotations

import time
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from delivery import dead_letters, endpoint_rules, events, lifecycle
from delivery.endpoint_changes import changed, locked, look_again, save
from delivery.endpoint_rotation import SECRET_OVERLAP, end_secret, rotate_secret, secret_for
from delivery.endpoint_rules import InvalidEndpoint
from delivery.endpoint_throttle import NO_THROTTLE, fix_rate, forget_health, lift_throttle
from delivery.engine import waiting
from delivery.engine.wake import wake
from delivery.errors import WrongState
from delivery.maintenance import leftovers
from delivery.maintenance.leftovers import DELETED, Settled
from delivery.models import Delivery, Endpoint, EndpointHealth, lean
from delivery.policy import retry
from delivery.policy.catalogue import ENDPOINT_TEST
from delivery.replays import Replayed, replay
from delivery.states import DeadLetters
from kernel.live_hints import touched
from kernel.locks import one_at_a_time
from kernel.secrets import unreadable_fields

__all__ = [
    "NO_THROTTLE",
    "SECRET_OVERLAP",
    "Replayed",
    "Settled",
    "WrongState",
    "create",
    "delete",
    "enable",
    "end_secret",
    "fix_rate",
    "gives_up",
    "lift_throttle",
    "pause",
    "refuse_one_more",
    "replay",
    "resume",
    "rotate_secret",
    "send_test",
    "settle_dead_letters",
    "update",
]

CANCEL_BUDGET_SECONDS = 10.0
WISH = ("dead_letters", "dead_letters_to")
PAUSED_BEFORE = "paused by a person before that"

log = structlog.get_logger(__name__)


def create(*, actor: str, reason: str = "", secret: str = "", signature_scheme: str = "v1", **values: Any) -> Endpoint:
    """A new endpoint with its health row and a secret (brought along, or made by us; it is on the returned object).

    Raises InvalidEndpoint, whose `errors` name each field, and WrongState where the subscriber has as many as it may.
    """
    values.setdefault("url", "")
    cleaned = endpoint_rules.clean(values)
    secret, public_key = secret_for(secret, signature_scheme)
    with transaction.atomic():
        refuse_one_more(cleaned.get("subscriber", ""))
        endpoint = Endpoint.objects.create(
            **cleaned,
            signature_scheme=signature_scheme,
            secret=secret,
            public_key=public_key,
            secret_changed_at=timezone.now(),
        )
        EndpointHealth.objects.create(endpoint=endpoint, cooldown_seconds=endpoint.breaker_cooldown_seconds)
        changed(endpoint, "create", actor, reason)
    return endpoint


def refuse_one_more(subscriber: str) -> None:
    """Each event of a subscriber is compared with all its endpoints and owed to those that want it. Two who create at
    the same moment are counted one after the other."""
    one_at_a_time("create an endpoint", subscriber)
    count, most = (
        Endpoint.objects.filter(subscriber=subscriber, deleted_at=None).count(),
        settings.ENDPOINTS_PER_SUBSCRIBER,
    )
    if count < most:
        return
    whose = f"Subscriber {subscriber!r} has" if subscriber else "The operators have"
    words = f"{whose} {count} endpoints, and may have {most}. Delete one, or raise ENDPOINTS_PER_SUBSCRIBER."
    raise WrongState(words, code="too_many_endpoints")


def update(
    endpoint: Endpoint | int,
    changes: dict[str, Any],
    *,
    actor: str,
    reason: str = "",
    sees_secrets: bool = False,
) -> Endpoint:
    """Change what is given. Secrets and state have verbs of their own. Raises InvalidEndpoint, WrongState.

    A new URL begins anew: breaker, counters, refusals and pace were of the old one. Whoever may not see the endpoint's
    secret headers (`sees_secrets`) cannot have them sent to another address either: see `endpoint_rules.ask_again`.
    """
    with transaction.atomic():
        current = locked(endpoint)
        standing = endpoint_rules.standing_of(current)
        cleaned = endpoint_rules.clean(changes, standing)
        if not sees_secrets:
            endpoint_rules.ask_again(standing, cleaned)
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
        current.paused_at = current.paused_at or timezone.now()
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


def delete(
    endpoint: Endpoint | int,
    *,
    actor: str,
    reason: str = "",
    dead_letters: str = DeadLetters.KEEP,
    move_to: int | None = None,
) -> Settled:
    """Marks it deleted at once (nothing is sent any more), cancels what waits for it and settles its dead letters:
    kept, discarded, or moved to the endpoint `move_to`. In chunks, for at most 10 s; a sweep does the rest.

    Raises InvalidEndpoint where they cannot go there. The row stays: deliveries point to it.
    """
    with transaction.atomic():
        current = locked(endpoint)
        _wish(current, dead_letters, move_to)
        current.deleted_at = timezone.now()
        current.secret, current.earlier_secrets = "", None
        current.hold_reason = DELETED
        lost = unreadable_fields(current)  # nobody will mend them any more
        for name in lost:
            setattr(current, name, None if name == "headers" else "")
        save(current, "deleted_at", "hold_reason", "secret", "earlier_secrets", *WISH, *lost)
        changed(current, "delete", actor, reason, dead_letters=dead_letters, move_to=move_to)
    return leftovers.settle(current.pk, actor=actor, reason=reason, budget_seconds=CANCEL_BUDGET_SECONDS)


def settle_dead_letters(
    endpoint: Endpoint | int, *, actor: str, reason: str = "", dead_letters: str, move_to: int | None = None
) -> Settled:
    """What was kept when the endpoint was deleted is discarded or moved after all. Raises WrongState for a live one."""
    pk = endpoint if isinstance(endpoint, int) else endpoint.pk
    with transaction.atomic():
        current: Endpoint = lean(Endpoint.objects.select_for_update(no_key=True)).get(pk=pk)
        if current.deleted_at is None:
            raise WrongState("This endpoint is not deleted: redrive or discard its dead letters.")
        _wish(current, dead_letters, move_to)
        current.save(update_fields=[*WISH, "updated_at"])
        changed(current, "settle_dead_letters", actor, reason, dead_letters=dead_letters, move_to=move_to)
    return leftovers.settle(current.pk, actor=actor, reason=reason, budget_seconds=CANCEL_BUDGET_SECONDS)


def _wish(current: Endpoint, dead_letters: str, move_to: int | None) -> None:
    """Judge what is to become of its dead letters, and note it. Another subscriber's endpoint is told like none."""
    if dead_letters not in DeadLetters.values:
        raise _bad("dead_letters", "unknown_choice", f"Use one of {', '.join(DeadLetters.values)}.")
    if dead_letters == DeadLetters.MOVE and move_to is None:
        raise _bad("move_to", "required", "Say where to move them: another endpoint's id.")
    if dead_letters != DeadLetters.MOVE and move_to is not None:
        raise _bad("move_to", "not_moved", "Dead letters go there only if dead_letters is move.")
    if move_to == current.pk:
        raise _bad("move_to", "same_endpoint", "They are this endpoint's own: name another one.")
    others = Endpoint.objects.filter(subscriber=current.subscriber, deleted_at=None)
    if move_to is not None and not others.filter(pk=move_to).exists():
        raise _bad("move_to", "unknown_endpoint", "The subscriber has no such endpoint.")
    current.dead_letters, current.dead_letters_to_id = dead_letters, move_to


def _bad(field: str, code: str, detail: str) -> InvalidEndpoint:
    return InvalidEndpoint([{"field": field, "code": code, "detail": detail}])


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
    data = {"endpoint": str(endpoint.pk), "message": "A test from Roundtrip."}
    event = events.record_for_one(endpoint.pk, endpoint.subscriber, ENDPOINT_TEST, data)
    return Delivery.objects.get(event=event)
