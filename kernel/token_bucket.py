"""A token bucket, pure: the one that every rate limit here goes by. Whoever keeps it locks the row it lies in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tokens` at the moment `tokens_at`; both None: never used, so full."""

    tokens: float | None = None
    tokens_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_minute` tokens flow in, `burst` is the most the bucket holds."""

    per_minute: float
    burst: float

    @classmethod
    def of(cls, per_minute: int | None, burst: int | None = None) -> Rate | None:
        """A limit as people set it; no burst given: a tenth of the rate, at least 1. None: no limit."""
        if per_minute is None:
            return None
        return cls(float(per_minute), float(burst or max(1, per_minute // 10)))


def level(bucket: Bucket, rate: Rate, now: datetime) -> float:
    """Tokens in the bucket now. A clock that went back adds nothing and takes nothing."""
    if bucket.tokens is None or bucket.tokens_at is None:
        return rate.burst
    passed = max(0.0, (now - bucket.tokens_at).total_seconds())
    return min(rate.burst, bucket.tokens + passed * rate.per_minute / 60.0)


def take(bucket: Bucket, rate: Rate, now: datetime, wanted: int) -> tuple[int, Bucket]:
    """How many of the wanted may go now (whole tokens only), and the bucket afterwards."""
    tokens = level(bucket, rate, now)
    granted = max(0, min(wanted, int(tokens + 1e-9)))
    at = max(now, bucket.tokens_at) if bucket.tokens_at is not None else now
    return granted, Bucket(max(0.0, tokens - granted), at)


def give_back(bucket: Bucket, rate: Rate, now: datetime, count: int) -> Bucket:
    """Return tokens of claims that were released without a request."""
    at = max(now, bucket.tokens_at) if bucket.tokens_at is not None else now
    return Bucket(min(rate.burst, level(bucket, rate, now) + count), at)


def next_token_at(bucket: Bucket, rate: Rate, now: datetime) -> datetime:
    """When at least one whole token is there; `now` where it already is."""
    missing = 1.0 - level(bucket, rate, now)
    if missing <= 1e-9:
        return now
    return now + timedelta(seconds=missing * 60.0 / rate.per_minute)
