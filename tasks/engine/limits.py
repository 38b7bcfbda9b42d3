"""How many tasks of a kind may start now: pause, hold, concurrency and rate, all in the kind's own row.

The claim locks that row first and counts in a second statement: counted inside the claim, side by side claimers would
go past the cap. A hold is set by us when the provider cannot take work, and ends by itself; a pause is a person's.
"""

from datetime import datetime, timedelta

from django.db import transaction

from kernel.token_bucket import Bucket, Rate, take
from tasks.engine import backoff
from tasks.models import KindPolicy, Task
from tasks.providers.base import ProviderError
from tasks.states import State

BURST_SECONDS = 10  # so much of a rate may be used at once


def locked_policy(kind: str) -> KindPolicy | None:
    """The kind's row, locked until the transaction ends."""
    return KindPolicy.objects.select_for_update(no_key=True).filter(kind=kind).first()


def room(policy: KindPolicy, now: datetime) -> int:
    """How many may start now. `policy` is locked."""
    if policy.is_paused or (policy.held_until is not None and policy.held_until > now):
        return 0
    free = max(0, policy.concurrency - _busy(policy))
    rate = _rate(policy)
    return take(_bucket(policy), rate, now, free)[0] if rate is not None else free


def is_full(policy: KindPolicy) -> bool:
    """Whether only the end of a running task makes room again."""
    return _busy(policy) >= policy.concurrency


def _busy(policy: KindPolicy) -> int:
    return Task.objects.filter(kind=policy.kind, state__in=[State.RUNNING, State.FETCHING]).count()


def spend(policy: KindPolicy, started: int, now: datetime) -> None:
    """Take the tokens of what was started. `policy` is locked."""
    if started and (rate := _rate(policy)) is not None:
        _, bucket = take(_bucket(policy), rate, now, started)
        policy.tokens, policy.tokens_at = bucket.tokens, bucket.tokens_at
        policy.save(update_fields=["tokens", "tokens_at"])


def _rate(policy: KindPolicy) -> Rate | None:
    per_minute = policy.rate_per_minute
    return Rate(per_minute, max(1.0, per_minute * BURST_SECONDS / 60)) if per_minute is not None else None


def _bucket(policy: KindPolicy) -> Bucket:
    return Bucket(policy.tokens, policy.tokens_at)


def hold(kind: str, error: ProviderError, now: datetime) -> float:
    """The provider could not take a start: the whole kind waits, longer each time in a row. Returns the seconds."""
    with transaction.atomic():
        policy = locked_policy(kind)
        if policy is None:
            return 0.0
        policy.failure_count = min(policy.failure_count + 1, 1000)
        seconds = backoff.hold_kind(policy.failure_count, error.retry_after)
        policy.held_until = max(policy.held_until or now, now + timedelta(seconds=seconds))
        policy.hold_reason, policy.hold_text = error.code[:60], error.detail[:300]
        policy.save(update_fields=["failure_count", "held_until", "hold_reason", "hold_text"])
    return seconds


def release(kind: str) -> None:
    """A start went through: the provider takes work again. Costs no row where nothing was held."""
    held = KindPolicy.objects.filter(kind=kind, failure_count__gt=0)
    held.update(failure_count=0, held_until=None, hold_reason="", hold_text="")
