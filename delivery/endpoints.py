"""The verbs of an endpoint: create, update, pause, resume, enable, lift a throttle or fix its rate, rotate or end a
secret, delete, test.

Each takes who did it and why, is one transaction, counts `version` up (engines cache by it), and leaves one line in
the audit trail and in the log. Replay is in `delivery.replays`. No verb writes a delivery's state: that is
`delivery.lifecycle`'s. No verb asks the name service: the edges do, with `endpoint_rules.check_destination`, before
the transaction.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from delivery import dead_letters, endpoint_rules, endpoint_secrets, events, lifecycle
from delivery.endpoint_rules import InvalidEndpoint
from delivery.engine import waiting
from delivery.engine.wake import wake
from delivery.errors import WrongState
from delivery.models import Delivery, Endpoint, EndpointHealth, Event, endpoint_label
from delivery.policy import pace as paces
from delivery.policy import retry, signing
from delivery.policy.pace import Pace
from delivery.replays import TEST_EVENT, Replayed, replay
from delivery.states import BreakerState, WaitReason
from kernel import audit, correlation
from kernel.live_hints import touched
from kernel.secrets import unreadable_fields

__all__ = [
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

SECRET_OVERLAP = timedelta(hours=24)
CANCEL_BUDGET_SECONDS = 10.0
DELETED = "its endpoint was deleted"
PAUSED_BEFORE = "paused by a person before that"
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
KEYS = ("secret", "earlier_secrets", "secret_changed_at", "public_key", "rotation_token")

log = structlog.get_logger(__name__)


def create(*, actor: str, reason: str = "", secret: str = "", signature_scheme: str = "v1", **values: Any) -> Endpoint:
    """A new endpoint with its health row and a secret (brought along, or made by us; it is on the returned object).

    Raises InvalidEndpoint, whose `errors` name each field.
    """
    values.setdefault("url", "")
    cleaned = endpoint_rules.clean(values)
    secret, public_key = _secret_for(secret, signature_scheme)
    with transaction.atomic():
        endpoint = Endpoint.objects.create(
            **cleaned,
            signature_scheme=signature_scheme,
            secret=secret,
            public_key=public_key,
            secret_changed_at=timezone.now(),
        )
        EndpointHealth.objects.create(endpoint=endpoint, cooldown_seconds=endpoint.breaker_cooldown_seconds)
        _changed(endpoint, "create", actor, reason)
    return endpoint


def update(endpoint: Endpoint | int, changes: dict[str, Any], *, actor: str, reason: str = "") -> Endpoint:
    """Change what is given. Secrets and state have verbs of their own. Raises InvalidEndpoint, WrongState.

    A new URL begins anew: breaker, counters, refusals and pace were of the old one.
    """
    with transaction.atomic():
        current = _locked(endpoint)
        standing = endpoint_rules.standing_of(current)
        cleaned = endpoint_rules.clean(changes, standing)
        for name, value in cleaned.items():
            setattr(current, name, value)
        _save(current, *cleaned)
        if "url" in cleaned and cleaned["url"] != standing.get("url"):
            _forget_health(current)
        elif cleaned:
            unusable = EndpointHealth.objects.filter(endpoint=current, wait_reason=WaitReason.UNUSABLE)
            if unusable.update(throttled_until=None, wait_reason=""):
                wake()
        if "breaker_cooldown_seconds" in cleaned:
            EndpointHealth.objects.filter(endpoint=current, breaker_state="closed").update(
                cooldown_seconds=current.breaker_cooldown_seconds
            )
        freed = lifecycle.forget_order(current.pk) if _differs("ordering_key", cleaned, standing) else 0
        _changed(current, "update", actor, reason, fields=sorted(cleaned), **({"freed": freed} if freed else {}))
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
        current = _locked(endpoint)
        current.paused_at = current.paused_at or timezone.now()
        if not (current.disabled_at or current.attention_at):
            current.hold_reason = (reason or f"paused by {actor}")[:200]
        _save(current, "paused_at", "hold_reason")
        _changed(current, "pause", actor, reason)
    return current


def resume(endpoint: Endpoint | int, *, actor: str, reason: str = "", redrive_refused: bool = True) -> Endpoint:
    """Ends a pause, and the hold after repeated refusals: held deliveries go out, and with them, unless
    `redrive_refused` is false, the few dead letters that the refusals made.

    Breaker, counters and learned pace begin anew. A disabled endpoint needs `enable`.
    """
    with transaction.atomic():
        current = _locked(endpoint)
        if current.disabled_at:
            raise WrongState(f"This endpoint is disabled ({current.hold_reason}). Enable it instead.")
        burnt = dead_letters.burnt_by_refusals(current) if current.attention_at and redrive_refused else []
        current.paused_at = current.attention_at = None
        _release(current, "paused_at", "attention_at")
        _changed(current, "resume", actor, reason, redriven=len(burnt))
        if burnt:
            lifecycle.redrive(burnt, actor=actor, reason=reason or "its endpoint was resumed")
    return current


def enable(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Endpoint:
    """Undoes what policy switched off (410, or needs attention). A pause stays a pause.

    Breaker, counters and learned pace begin anew.
    """
    with transaction.atomic():
        current = _locked(endpoint)
        if current.disabled_at or current.attention_at:
            current.hold_reason = (
                PAUSED_BEFORE  # for the pause that may be left: the reason that stood there was policy's
            )
        current.disabled_at = current.attention_at = None
        _release(current, "disabled_at", "attention_at")
        _changed(current, "enable", actor, reason)
    return current


def lift_throttle(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Endpoint:
    """Forget the wait that the receiver asked for, and the pace learned from its answers. Holds and breaker stay."""
    with transaction.atomic():
        current = _locked(endpoint)
        EndpointHealth.objects.filter(endpoint=current).update(**NO_THROTTLE, pace_lowered_at=Now())
        waiting.end_waits(current.pk)
        wake()
        _changed(current, "lift_throttle", actor, reason)
    return current


def fix_rate(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> Endpoint:
    """Make the learned pace the endpoint's own limit (`rate_per_minute`, one at a time), and forget what was learned.

    Raises WrongState where no pace is known. A wait that the receiver asked for goes on.
    """
    with transaction.atomic():
        current = _locked(endpoint)
        health = EndpointHealth.objects.select_for_update(no_key=True).get(endpoint=current)
        per_second = Pace.of(health).per_second
        if per_second is None:
            raise WrongState("No pace is known for this endpoint: it was not asked to slow down lately.")
        current.rate_per_minute = max(1, int(per_second * 60))
        current.rate_burst = max(1, int(per_second * paces.BURST_SECONDS))
        _save(current, "rate_per_minute", "rate_burst")
        waits = {"throttled_until": health.throttled_until, "wait_reason": health.wait_reason}
        EndpointHealth.objects.filter(endpoint=current).update(**{**NO_THROTTLE, **waits}, pace_lowered_at=Now())
        _changed(current, "fix_rate", actor, reason, rate_per_minute=current.rate_per_minute)
    return current


def rotate_secret(
    endpoint: Endpoint | int,
    *,
    actor: str,
    reason: str = "",
    secret: str = "",
    signature_scheme: str = "",
    overlap: timedelta = SECRET_OVERLAP,
    token: str = "",
) -> Endpoint:
    """A new secret (made by us unless brought along), on the returned object. The one before it signs until `overlap`
    is over, those before that until the time that was promised for them.

    `token` names the page it was asked on: asked twice by one page, it is rotated once, and the answer is the same.
    A secret that leaked is rotated with no overlap, or ended by `end_secret`. Raises InvalidEndpoint, WrongState.
    """
    with transaction.atomic():
        current = _locked(endpoint)
        if token and token == current.rotation_token:
            return current
        scheme, now = signature_scheme or current.signature_scheme, current.read_at
        fresh, public_key = _secret_for(secret, scheme)
        current.earlier_secrets = endpoint_secrets.rotated(current, fresh, overlap, now)
        current.secret, current.public_key, current.signature_scheme = fresh, public_key, scheme
        current.secret_changed_at, current.rotation_token = now, token
        _save(current, *KEYS, "signature_scheme")
        _changed(current, "rotate_secret", actor, reason, overlap_seconds=int(overlap.total_seconds()))
    return current


def end_secret(endpoint: Endpoint | int, key_id: str, *, actor: str, reason: str = "") -> Endpoint:
    """An earlier secret, named by its id, signs no more from now on: it has leaked. Raises WrongState for the last."""
    with transaction.atomic():
        current = _locked(endpoint)
        current.earlier_secrets = endpoint_secrets.without(current, key_id, current.read_at)
        _save(current, "earlier_secrets")
        _changed(current, "end_secret", actor, reason, key_id=key_id)
    return current


def delete(endpoint: Endpoint | int, *, actor: str, reason: str = "") -> int:
    """Marks it deleted at once (nothing is sent any more) and cancels what waits for it, in chunks, for at most 10 s.

    Returns how many were cancelled; a sweep does the rest. The row stays: deliveries point to it.
    """
    with transaction.atomic():
        current = _locked(endpoint)
        current.deleted_at = timezone.now()
        current.secret, current.earlier_secrets = "", None
        current.hold_reason = DELETED
        lost = unreadable_fields(current)  # nobody will mend them any more
        for name in lost:
            setattr(current, name, None if name == "headers" else "")
        _save(current, "deleted_at", "hold_reason", "secret", "earlier_secrets", *lost)
        _changed(current, "delete", actor, reason)
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
        current = _locked(endpoint)
        delivery = _record_test(current)
        EndpointHealth.objects.filter(endpoint=current).update(test_id=delivery.pk)
        _changed(current, "send_test", actor, reason, delivery=delivery.pk)
    return delivery


def gives_up(endpoint: Endpoint) -> str:
    """In words, when a delivery to it becomes a dead letter: "after 5 attempts, about 8 minutes after the first"."""
    schedule = retry.schedule_for(endpoint.retry_profile, endpoint.retry_delays)
    return retry.gives_up_after(schedule, endpoint.max_attempts)


def _secret_for(secret: str, scheme: str) -> tuple[str, str]:
    """(secret, public key) to store; a secret that was brought along must fit the scheme."""
    try:
        if not secret:
            return signing.new_secret(scheme)
        if signing.scheme_of(secret) != scheme or secret.startswith(signing.PUBLIC_PREFIX):
            raise signing.SecretInvalid("scheme", "Scheme v1 needs a whsec_… secret, v1a a whsk_… private key.")
        return secret, signing.public_key_of(secret)
    except signing.SecretInvalid as error:
        raise InvalidEndpoint([{"field": "secret", "code": error.code, "detail": error.detail}]) from None


def _locked(endpoint: Endpoint | int) -> Any:
    """The row as it stands, and as `read_at` the database's time, which the engine judges secrets by."""
    pk = endpoint if isinstance(endpoint, int) else endpoint.pk
    current = Endpoint.objects.select_for_update(no_key=True).annotate(read_at=Now()).get(pk=pk)
    if current.deleted_at:
        raise WrongState("This endpoint was deleted. Create a new one, and replay what it needs.")
    return current


def _save(endpoint: Endpoint, *fields: str) -> None:
    endpoint.version = F("version") + 1  # type: ignore[assignment]
    endpoint.save(update_fields=[*fields, "version", "updated_at"])
    endpoint.refresh_from_db(fields=["version", "is_held"])


def _release(endpoint: Endpoint, *cleared: str) -> None:
    """Forget the refusals, and let what waits go."""
    endpoint.hold_reason = endpoint.hold_reason if endpoint.paused_at else ""
    _save(endpoint, *cleared, "hold_reason")
    _forget_health(endpoint)


def _forget_health(endpoint: Endpoint) -> None:
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


def _changed(endpoint: Endpoint, verb: str, actor: str, reason: str, **more: Any) -> None:
    audit.record(actor, verb, "endpoint", [endpoint.pk], reason, detail=more)
    log.info("operator_verb", verb=f"endpoint.{verb}", actor=actor, reason=reason, **endpoint_label(endpoint), **more)
    touched(f"endpoint:{endpoint.pk}", "stats", "deliveries")


def _record_test(endpoint: Endpoint) -> Delivery:
    now = timezone.now()
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
