"""How fast an endpoint is sent to that answers "slow down": a pace learned from its answers. Pure.

    no limit ── throttled ──▶ wait ── over ──▶ one delivery goes first ── let pass ──▶ pace rises ── throttled ──▶ …
                                                       └── throttled: a longer wait, same pace

Three phases of rising, by what was *sent*, never by time that passed idle:
- The limit is unknown: from what was let pass lately, doubled with every few deliveries until a 429 shows where it is.
- The limit is known (`ceiling`): from nine tenths of it along the curve of CUBIC (RFC 9438 §4.2), fast at first, flat
  round the ceiling, where it stays longest, and then away from it: a receiver that takes more is found out soon, and
  one that does not is asked seldom.
- Ten times the ceiling, or a day without being throttled: forgotten, no limit.

Requests that were under way when it was lowered count no more: many 429s at once are one decrease.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from kernel.token_bucket import Bucket, Rate

SLOWEST, FASTEST = 1 / 60, 2_000.0  # a second; above the fastest there is nothing to hold back
FIRST_PER_SECOND = 0.5  # where nothing was let pass lately
DOUBLED_BY, DOUBLED_IN_SECONDS = 5, 1.0  # deliveries, and seconds of sending at least
DEPTH = 0.1  # how far under the ceiling it begins
CURVE_SECONDS = 45.0  # until it reaches the ceiling
MEASURED_LEAST = 10  # fewer answers say little of a rate
SOON, SOON_SECONDS = 4, 4.0  # throttled again after less than this: the ceiling is far off
FORGOTTEN_AT = 10.0  # times the ceiling
FORGOTTEN_AFTER = timedelta(days=1)
BURST_SECONDS = 0.05  # so much of a pace may go at once; one delivery at least
LOOKS_BACK_SECONDS, LOOKS_AT_MOST = 60.0, 5_000


@dataclass(frozen=True, slots=True)
class Pace:
    """As stored in EndpointHealth. `per_second` None: no limit; `ceiling` None: still looking for it.

    `clock` is how much was sent since it was lowered, in seconds of sending at the pace of each moment; `sent` counts.
    `probe_until` stands from the throttled answer until a delivery was let pass: one goes at a time, and it expires.
    `streak` counts throttled answers in a row, those that were under way together counted once.
    """

    per_second: float | None = None
    ceiling: float | None = None
    clock: float = 0.0
    sent: int = 0
    lowered_at: datetime | None = None
    probe_until: datetime | None = None
    streak: int = 0
    status: int = 0

    @classmethod
    def of(cls, row: object) -> Pace:
        """From whatever has the columns of EndpointHealth as attributes."""
        return cls(*_values_of(row))


NO_PACE = Pace()
FIELDS = (
    "pace_per_second",
    "pace_ceiling",
    "pace_clock",
    "pace_sent",
    "pace_lowered_at",
    "pace_probe_until",
    "throttle_streak",
    "throttle_status",
)
_values_of = attrgetter(*FIELDS)


def is_news(pace: Pace, began_at: datetime) -> bool:
    """Was this request sent after the pace was lowered last? What was under way by then tells nothing new."""
    return pace.lowered_at is None or began_at >= pace.lowered_at


def lowered(
    pace: Pace, *, wait: float, told: bool, passed: int, over_seconds: float, status: int, now: datetime
) -> Pace:
    """After a throttled answer that `is_news`; `wait` are the seconds that the endpoint waits from now.

    `passed` deliveries were let pass within the last `over_seconds`, at the pace of now or without any.
    """
    standing = current(pace, now)
    waited = replace(
        standing,
        lowered_at=now,
        probe_until=now + timedelta(seconds=wait),
        streak=pace.streak + 1,
        status=status,
        clock=0.0,
        sent=0,
    )
    if standing.per_second is not None and standing.probe_until is not None:
        return waited  # the one that went first: it tells of the wait, not of the pace
    measured = passed / max(0.001, over_seconds + wait)
    if standing.per_second is None:
        first = measured if passed >= MEASURED_LEAST else min(max(measured, FIRST_PER_SECOND), 1.0)
        return replace(waited, per_second=_bounded(first), ceiling=None)
    ceiling = standing.per_second * _cut(standing)
    if told and passed >= MEASURED_LEAST:
        ceiling = min(ceiling, measured * 1.5)  # a window of minutes: the pace within it says little
    ceiling = _bounded(ceiling)
    return replace(waited, per_second=_bounded(ceiling * (1 - DEPTH)), ceiling=ceiling)


def _cut(pace: Pace) -> float:
    """What part of the pace that was too fast is taken for the limit."""
    if pace.ceiling is None:
        return 0.75  # it rose by a seventh with each delivery
    return 0.75 if pace.sent < SOON or pace.clock < SOON_SECONDS else 0.95


def let_pass(pace: Pace) -> Pace:
    """After an answer to a request that `is_news` and was not throttled: the way is open."""
    return replace(pace, probe_until=None, streak=0) if pace.probe_until or pace.streak else pace


def not_sent(pace: Pace, now: datetime) -> Pace:
    """After a request that `is_news` and never went out: if it was to go first, another may, without waiting for it."""
    is_waited_for = pace.probe_until is not None and pace.probe_until > now
    return replace(pace, probe_until=now) if is_waited_for else pace


def sent(pace: Pace, count: int, now: datetime, *, probe_until: datetime) -> Pace:
    """After `count` deliveries left. The one that goes first is waited for until `probe_until`."""
    pace = current(pace, now)
    per_second = pace.per_second
    if per_second is None or not count:
        return pace
    if pace.probe_until is not None:  # whether it is let pass, nobody knows yet: it raises nothing
        return replace(pace, probe_until=probe_until)
    clock, total = pace.clock + count / per_second, pace.sent + count
    if pace.ceiling is None:
        doubled_by = max(DOUBLED_BY, per_second * DOUBLED_IN_SECONDS)
        risen = per_second * 2.0 ** min(1.0, count / doubled_by)
    else:
        risen = max(per_second, pace.ceiling * (1 + DEPTH * (clock / CURVE_SECONDS - 1) ** 3))
    if risen > FASTEST or (pace.ceiling is not None and risen > pace.ceiling * FORGOTTEN_AT):
        return replace(NO_PACE, lowered_at=pace.lowered_at, probe_until=pace.probe_until, streak=pace.streak)
    return replace(pace, per_second=risen, clock=clock, sent=total)


def current(pace: Pace, now: datetime) -> Pace:
    """The pace as it holds now: forgotten after a day without a throttled answer."""
    if pace.per_second is None or pace.lowered_at is None or pace.probe_until is not None:
        return pace
    return pace if now - pace.lowered_at < FORGOTTEN_AFTER else replace(NO_PACE, lowered_at=pace.lowered_at)


def limit(rate: Rate | None, pace: Pace, now: datetime) -> Rate | None:
    """What holds: the endpoint's own limit or the learned pace, whichever is slower."""
    per_second = current(pace, now).per_second
    if per_second is None:
        return rate
    learned = Rate(per_second * 60.0, max(1.0, per_second * BURST_SECONDS))
    return learned if rate is None else Rate(min(rate.per_minute, learned.per_minute), min(rate.burst, learned.burst))


def room(pace: Pace, wanted: int) -> int:
    """While nothing was let pass since the wait, one goes first. Whether it is under way the claim has asked."""
    return min(wanted, 1) if pace.probe_until is not None else wanted


def bucket_after_wait(wait: float, now: datetime) -> Bucket:
    """One token at the end of the wait: what was saved up before is gone."""
    return Bucket(1.0, now + timedelta(seconds=wait))


def _bounded(per_second: float) -> float:
    return min(FASTEST, max(SLOWEST, per_second))


def in_words(pace: Pace, now: datetime) -> str:
    """For page and API: "we send about 1.0/s, because they answer 429"; "" without a learned pace."""
    per_second = current(pace, now).per_second
    if per_second is None:
        return ""
    if per_second >= 10:
        speed = f"{per_second:.0f}/s"
    else:
        speed = f"{per_second:.1f}/s" if per_second >= 0.5 else f"{per_second * 60:.0f} a minute"
    return f"we send about {speed}, because they answer {pace.status or 429}"
