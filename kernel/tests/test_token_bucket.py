"""The token bucket against a model: never more than burst + rate × time in any window."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kernel.token_bucket import Bucket, Rate, give_back, level, next_token_at, take

T0 = datetime(2026, 5, 1, tzinfo=UTC)


def test_rates():
    assert Rate.of(None) is None
    assert Rate.of(100) == Rate(100.0, 10.0)
    assert Rate.of(5) == Rate(5.0, 1.0)
    assert Rate.of(100, 3) == Rate(100.0, 3.0)


def test_full_at_first_then_as_it_flows():
    rate = Rate.of(60, 5)
    granted, bucket = take(Bucket(), rate, T0, 10)
    assert granted == 5
    assert take(bucket, rate, T0, 1)[0] == 0
    assert next_token_at(bucket, rate, T0) == T0 + timedelta(seconds=1)
    assert take(bucket, rate, T0 + timedelta(seconds=2.5), 10)[0] == 2
    assert level(bucket, rate, T0 + timedelta(days=1)) == 5
    assert level(give_back(bucket, rate, T0, 99), rate, T0) == 5


def test_a_clock_that_goes_back_gives_nothing():
    rate = Rate.of(60, 5)
    _, bucket = take(Bucket(), rate, T0, 5)
    assert take(bucket, rate, T0 - timedelta(hours=1), 1)[0] == 0
    _, bucket = take(bucket, rate, T0 - timedelta(hours=1), 1)
    assert take(bucket, rate, T0 + timedelta(seconds=1), 5)[0] == 1


steps = st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 30)), min_size=1, max_size=60)


@given(st.integers(1, 6000), st.integers(1, 200), steps)
def test_against_a_model(per_minute, burst, history):
    rate, bucket, now = Rate.of(per_minute, burst), Bucket(), T0
    granted_log = []
    model = float(burst)
    for wait_ms, wanted in history:
        now += timedelta(milliseconds=wait_ms)
        model = min(burst, model + wait_ms / 1000 * per_minute / 60)
        granted, bucket = take(bucket, rate, now, wanted)
        assert abs(granted - min(wanted, int(model + 1e-6))) <= 1
        assert granted <= model + 1e-6
        model -= granted
        granted_log.append((now, granted))
    for i in range(len(granted_log)):
        for j in range(i, len(granted_log)):
            window = (granted_log[j][0] - granted_log[i][0]).total_seconds()
            assert sum(g for _, g in granted_log[i : j + 1]) <= burst + window * per_minute / 60 + 1e-6


@given(st.integers(1, 6000), st.integers(1, 50))
def test_the_next_token_is_there_when_it_is_promised(per_minute, burst):
    rate = Rate.of(per_minute, burst)
    _, bucket = take(Bucket(), rate, T0, burst)
    at = next_token_at(bucket, rate, T0) + timedelta(microseconds=1)
    assert take(bucket, rate, at, 1)[0] == 1
