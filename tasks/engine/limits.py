"""How many tasks of a kind may start now: pause, concurrency and rate, all in the kind's own row.

The claim locks that row first and counts in a second statement: counted inside the claim, side by side claimers would
go past the cap. What the provider's account allows is counted after it (`tasks.accounts.limits`).
"""

from datetime import datetime

from kernel.token_bucket import Bucket, Rate, take
from tasks.models import KindPolicy, Task
from tasks.states import State

BURST_SECONDS = 10  # so much of a rate may be used at once


def locked_policy(kind: str) -> KindPolicy | None:
    """The kind's row, locked until the transaction ends."""
    return KindPolicy.objects.select_for_update(no_key=True).filter(kind=kind).first()


def room(policy: KindPolicy, now: datetime) -> int:
    """How many may start now. `policy` is locked."""
    if policy.is_paused:
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
