"""How many tasks of a kind may start now: pause, concurrency and rate, all in the kind's own row.

The claim locks that row first and counts in a second statement: counted inside the claim, side by side claimers would
go past the cap. Each subscriber may have a share of it, so that one customer's flood cannot fill a kind. What the
provider's account allows is counted after it (`tasks.accounts.limits`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import Count

from kernel.token_bucket import Bucket, Rate, level, take
from tasks.models import KindPolicy, SubscriberShare, Task
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
    rate = _rate(policy.rate_per_minute)
    return take(_bucket(policy), rate, now, free)[0] if rate is not None else free


def is_full(policy: KindPolicy) -> bool:
    """Whether only the end of a running task makes room again."""
    return _busy(policy) >= policy.concurrency


def _busy(policy: KindPolicy) -> int:
    return Task.objects.filter(kind=policy.kind, state__in=[State.RUNNING, State.FETCHING]).count()


def spend(policy: KindPolicy, tasks: Sequence[Task], now: datetime) -> None:
    """Take the tokens of what was started. `policy` is locked."""
    if policy.subscriber_rate_per_minute is not None:
        _spend_shares(policy, Counter(task.subscriber for task in tasks), now)
    started = len(tasks)
    if started and (rate := _rate(policy.rate_per_minute)) is not None:
        _, bucket = take(_bucket(policy), rate, now, started)
        policy.tokens, policy.tokens_at = bucket.tokens, bucket.tokens_at
        policy.save(update_fields=["tokens", "tokens_at"])


def is_out_of_tokens(policy: KindPolicy, now: datetime) -> bool:
    """Whether the rate alone keeps the next one back."""
    rate = _rate(policy.rate_per_minute)
    return rate is not None and level(_bucket(policy), rate, now) < 1


def is_share_used(policy: KindPolicy, share: SubscriberShare | None, now: datetime) -> bool:
    """Whether a subscriber's rate keeps its next one back."""
    rate = _rate(policy.subscriber_rate_per_minute)
    return rate is not None and share is not None and level(Bucket(share.tokens, share.tokens_at), rate, now) < 1


def shares(policy: KindPolicy, names: Sequence[str], room: int, now: datetime) -> dict[str, int]:
    """How many each of these subscribers may start now, `room` at most. `policy` is locked."""
    allowed = dict.fromkeys(names, room)
    if policy.subscriber_concurrency is not None:
        for name, number in busy_by_subscriber(policy.kind).items():
            if name in allowed:
                allowed[name] = max(0, min(room, policy.subscriber_concurrency - number))
        allowed = {name: min(most, policy.subscriber_concurrency) for name, most in allowed.items()}
    if (rate := _rate(policy.subscriber_rate_per_minute)) is not None:
        used = SubscriberShare.objects.filter(kind=policy.kind, subscriber__in=names)
        buckets = {row.subscriber: Bucket(row.tokens, row.tokens_at) for row in used}
        for name, most in allowed.items():
            allowed[name] = take(buckets.get(name, Bucket()), rate, now, most)[0]
    return allowed


def busy_by_subscriber(kind: str) -> dict[str, int]:
    """How many of each subscriber run now."""
    rows = Task.objects.filter(kind=kind, state__in=[State.RUNNING, State.FETCHING]).order_by().values("subscriber")
    return dict(rows.annotate(number=Count("pk")).values_list("subscriber", "number"))


def _spend_shares(policy: KindPolicy, started: Mapping[str, int], now: datetime) -> None:
    """Take the tokens of what each subscriber started. `policy` is locked, so nobody else writes these rows."""
    rate = _rate(policy.subscriber_rate_per_minute)
    if rate is None or not started:
        return
    rows = SubscriberShare.objects.filter(kind=policy.kind, subscriber__in=list(started))
    known = {row.subscriber: Bucket(row.tokens, row.tokens_at) for row in rows}
    after = {name: take(known.get(name, Bucket()), rate, now, number)[1] for name, number in started.items()}
    SubscriberShare.objects.bulk_create(
        [
            SubscriberShare(kind=policy.kind, subscriber=n, tokens=b.tokens, tokens_at=b.tokens_at)
            for n, b in after.items()
        ],
        update_conflicts=True,
        unique_fields=["kind", "subscriber"],
        update_fields=["tokens", "tokens_at"],
    )


def _rate(per_minute: int | None) -> Rate | None:
    return Rate(per_minute, max(1.0, per_minute * BURST_SECONDS / 60)) if per_minute is not None else None


def _bucket(policy: KindPolicy) -> Bucket:
    return Bucket(policy.tokens, policy.tokens_at)
