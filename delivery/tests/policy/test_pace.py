"""The learned pace against receivers that keep limits, on a simulated clock: everything arrives, with few 429s."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delivery.policy import pace as paces
from delivery.policy.pace import NO_PACE, Pace
from delivery.policy.retry import schedule_for, throttle_wait
from kernel.token_bucket import Bucket, Rate, take

T0 = datetime(2026, 5, 1, tzinfo=UTC)
SPEC = schedule_for("spec")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


@dataclass
class Leaky:
    """nginx `limit_req`: `rate` a second, `burst` beyond it without delay; says `told` seconds or nothing."""

    rate: float
    burst: float = 0.0
    told: float | None = None
    excess: float = 0.0
    last: float = -1e9

    def accepts(self, now: float) -> bool:
        excess = max(0.0, self.excess - (now - self.last) * self.rate) + 1.0
        if self.last > -1e8 and excess - 1.0 > self.burst + 1e-9:
            return False
        self.excess, self.last = (excess if self.last > -1e8 else 1.0), now
        return True

    def retry_after(self, now: float) -> float | None:
        return self.told


@dataclass
class Sliding:
    """haproxy's `http_req_rate(window)`: counts every request of the window, the denied ones too."""

    most: int
    window: float
    told: float | None = None
    seen: deque[float] = field(default_factory=deque)

    def accepts(self, now: float) -> bool:
        while self.seen and self.seen[0] <= now - self.window:
            self.seen.popleft()
        self.seen.append(now)
        return len(self.seen) <= self.most

    def retry_after(self, now: float) -> float | None:
        return self.told


@dataclass
class Fixed:
    """So many in each whole window; says how long until the next."""

    most: int
    window: float
    number: int = -1
    count: int = 0

    def accepts(self, now: float) -> bool:
        if int(now // self.window) != self.number:
            self.number, self.count = int(now // self.window), 0
        self.count += 1
        return self.count <= self.most

    def retry_after(self, now: float) -> float | None:
        return float(int(self.window - now % self.window) + 1)


@dataclass
class Seen:
    passed: list[float] = field(default_factory=list)
    throttled: list[float] = field(default_factory=list)
    pace: Pace = NO_PACE

    def rate_after(self, seconds: float) -> float:
        """Deliveries a second from then on."""
        late = [moment for moment in self.passed if moment >= seconds]
        return len(late) / max(0.001, self.passed[-1] - seconds)


def simulate(
    receiver, events: int, *, seed: int = 1, latency: float = 0.02, concurrency: int = 20, ends: float = 3600
) -> Seen:
    """The engine in small: looks every 40 ms at least, a cap, a bucket, the settle's rules."""
    rng, seen = random.Random(seed), Seen()
    bucket, pace, throttled_until, now = Bucket(), NO_PACE, 0.0, 0.0
    air: list[tuple[float, float, bool, float | None]] = []
    waiting = events
    while (waiting or air) and now < ends:
        if waiting and now >= throttled_until and (pace.probe_until is None or at(now) >= pace.probe_until):
            wanted = paces.room(pace, min(waiting, concurrency - len(air)))
            rate = paces.limit(None, pace, at(now))
            if rate is not None:
                wanted, bucket = take(bucket, rate, at(now), wanted)
            pace = paces.sent(pace, wanted, at(now), probe_until=at(now + 30))
            for _ in range(wanted):
                arrives = now + rng.uniform(0.5, 1.0) * latency / 2
                ok = receiver.accepts(arrives)
                heapq.heappush(air, (arrives + latency / 2, now, ok, None if ok else receiver.retry_after(arrives)))
            waiting -= wanted
        ahead = now + rng.uniform(0.005, 0.04)
        if not air and throttled_until > ahead:
            ahead = throttled_until + rng.uniform(0.0, 0.04)
        now = ahead
        while air and air[0][0] <= now:
            ended, began, ok, told = heapq.heappop(air)
            if ok:
                seen.passed.append(ended)
                if paces.is_news(pace, at(began)):
                    pace = paces.let_pass(pace)
                continue
            waiting += 1
            seen.throttled.append(ended)
            if not paces.is_news(pace, at(began)):
                continue
            since = max(
                ended - paces.LOOKS_BACK_SECONDS, (pace.lowered_at - T0).total_seconds() if pace.lowered_at else 0
            )
            lately = [moment for moment in seen.passed if moment >= since]
            wait = throttle_wait(SPEC, told, pace.streak + 1, rng)
            pace = paces.lowered(
                pace, wait=wait, told=told is not None, passed=len(lately),
                over_seconds=ended - lately[0] if lately else 0.0, status=429, now=at(ended),
            )  # fmt: skip
            throttled_until, bucket = ended + wait, paces.bucket_after_wait(wait, at(ended))
    seen.pace = pace
    return seen


@pytest.mark.parametrize("seed", range(5))
def test_one_a_second_that_says_two_seconds_gets_120_events_within_150_seconds(seed):
    seen = simulate(Leaky(1.0, told=2.0), 120, seed=seed)
    assert len(seen.passed) == 120
    assert seen.passed[-1] < 150
    assert len(seen.throttled) < 40


RECEIVERS = {
    "0.2/s": (lambda: Leaky(0.2, told=5.0), 0.2, 60),
    "1/s": (lambda: Leaky(1.0, told=2.0), 1.0, 200),
    "1/s without a word": (lambda: Leaky(1.0), 1.0, 300),
    "10/s": (lambda: Leaky(10.0, told=1.0), 10.0, 2_000),
    "10/s with burst": (lambda: Leaky(10.0, burst=20, told=1.0), 10.0, 2_000),
    "10/s without a word": (lambda: Leaky(10.0, burst=20), 10.0, 3_000),
    "100/s with burst": (lambda: Leaky(100.0, burst=50, told=1.0), 100.0, 20_000),
    "haproxy, 100 in 10 s": (lambda: Sliding(100, 10.0), 10.0, 3_000),
    "haproxy, 20 in 10 s, says 10": (lambda: Sliding(20, 10.0, told=10.0), 2.0, 600),
    "60 in each minute": (lambda: Fixed(60, 60.0), 1.0, 300),
    "1,000 in each minute": (lambda: Fixed(1_000, 60.0), 1_000 / 60, 5_000),
}


@pytest.mark.parametrize("name", RECEIVERS)
@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_limit_is_learned_and_used_by_half_at_least(name, seed):
    make, rate, count = RECEIVERS[name]
    seen = simulate(make(), count, seed=seed, ends=20_000)
    assert len(seen.passed) == count
    assert count / seen.passed[-1] >= 0.5 * rate
    assert len(seen.throttled) <= 45 + count * 0.1


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(0.2, 100),
    burst=st.integers(0, 50),
    told=st.one_of(st.none(), st.integers(1, 5)),
    latency=st.floats(0.005, 0.3),
    seed=st.integers(0, 1000),
)
def test_whatever_the_limit_all_arrive_with_few_429s_in_bounded_time(rate, burst, told, latency, seed):
    count = min(1_500, max(40, int(rate * 100)))
    seen = simulate(Leaky(rate, burst, told), count, seed=seed, latency=latency, ends=50_000)
    assert len(seen.passed) == count
    assert len(seen.throttled) <= 60 + 0.2 * count
    assert seen.passed[-1] <= 600 + 5 * count / rate


def test_what_was_under_way_is_no_news():
    pace = paces.lowered(NO_PACE, wait=2, told=True, passed=0, over_seconds=0, status=429, now=at(10))
    assert not paces.is_news(pace, at(9.9)) and paces.is_news(pace, at(10))


def test_the_one_that_goes_first_tells_of_the_wait_and_not_of_the_pace():
    pace = Pace(5.0, 5.0, lowered_at=at(0), probe_until=at(2), streak=1)
    again = paces.lowered(pace, wait=9, told=True, passed=0, over_seconds=0, status=429, now=at(3))
    assert (again.per_second, again.streak, again.probe_until) == (5.0, 2, at(12))
    assert paces.let_pass(again).streak == 0


def test_goers_first_that_are_all_throttled_raise_no_pace():
    """A receiver that lets nothing pass for days is not sent to faster and faster."""
    pace, now = Pace(per_second=1.0, lowered_at=T0, probe_until=T0, streak=1), T0
    for _ in range(100):
        now += timedelta(hours=1)
        pace = paces.sent(pace, 1, now, probe_until=now + timedelta(minutes=1))
        pace = paces.lowered(pace, wait=3600, told=False, passed=0, over_seconds=1, status=429, now=now)
    assert pace.per_second == 1.0


def test_it_is_forgotten_after_a_day_but_not_while_one_goes_first():
    pace = Pace(1.0, 1.0, lowered_at=at(0))
    assert paces.limit(None, pace, at(86_399)) == Rate(60.0, 1.0)
    assert paces.limit(None, pace, at(86_400)) is None
    assert paces.limit(Rate(30.0, 5.0), pace, at(86_400)) == Rate(30.0, 5.0)
    waiting = Pace(1.0, 1.0, lowered_at=at(0), probe_until=at(86_400))
    assert paces.limit(None, waiting, at(86_401)) == Rate(60.0, 1.0)


def test_it_is_forgotten_once_far_above_the_limit_seen():
    pace = Pace(1.0, 1.0, lowered_at=at(0))
    sends = 0
    while pace.per_second is not None and sends < 10_000:
        pace, sends = paces.sent(pace, 1, at(1), probe_until=at(2)), sends + 1
    assert pace.per_second is None and sends < 1_500


def test_the_slower_of_pace_and_limit_holds():
    assert paces.limit(Rate(30.0, 5.0), Pace(10.0), at(0)) == Rate(30.0, 1.0)
    assert paces.limit(Rate(6000.0, 5.0), Pace(10.0), at(0)) == Rate(600.0, 1.0)
    assert paces.limit(None, Pace(100.0), at(0)) == Rate(6000.0, 5.0)


@pytest.mark.parametrize(
    ("per_second", "words"),
    [(123.4, "about 123/s"), (1.04, "about 1.0/s"), (0.2, "about 12 a minute"), (1 / 60, "about 1 a minute")],
)
def test_in_words(per_second, words):
    assert paces.in_words(Pace(per_second, status=503), at(0)) == f"we send {words}, because they answer 503"


@pytest.mark.parametrize(
    ("told", "times", "least", "most"),
    [
        (7.0, 1, 7, 7),
        (0.0, 1, 0, 0),
        (None, 1, 0, 30),
        (0.0, 2, 1, 30),
        (0.0, 3, 2, 60),
        (90.0, 3, 90, 90),
        (5.0, 12, 60, 3600),
    ],
)
def test_a_hint_lengthens_the_wait_and_undercuts_our_backoff_once_at_most(told, times, least, most):
    for seed in range(50):
        assert least <= throttle_wait(SPEC, told, times, random.Random(seed)) <= most
