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


def test_a_limit_without_a_burst_lets_a_tenth_of_a_minute_go_at_once():
    assert Rate.of(20) == Rate(20.0, 2.0)
    assert Rate.of(0) == Rate(0.0, 1.0)
    assert Rate.of(100, 0) == Rate(100.0, 10.0)


def test_a_bucket_is_full_until_it_is_used():
    assert Bucket() == Bucket(tokens=None, tokens_at=None)
    rate = Rate(60.0, 5.0)
    assert level(Bucket(3.0, None), rate, T0) == level(Bucket(None, T0), rate, T0) == 5.0


def test_what_is_taken_and_what_is_left():
    rate = Rate(60.0, 5.0)
    assert take(Bucket(3.5, T0), rate, T0, 2) == (2, Bucket(1.5, T0))
    assert take(Bucket(3.5, T0), rate, T0, 9) == (3, Bucket(0.5, T0))
    assert take(Bucket(3.5, T0), rate, T0, 0) == (0, Bucket(3.5, T0))
    assert take(Bucket(3.5, T0), rate, T0, -2) == (0, Bucket(3.5, T0))
    assert take(Bucket(0.0, T0), rate, T0 + timedelta(seconds=2), 1) == (1, Bucket(1.0, T0 + timedelta(seconds=2)))
    assert take(Bucket(), rate, T0, 1) == (1, Bucket(4.0, T0))


def test_almost_a_token_is_one_and_never_leaves_a_debt():
    rate = Rate(60.0, 5.0)
    assert take(Bucket(1 - 1e-10, T0), rate, T0, 1) == (1, Bucket(0.0, T0))
    assert take(Bucket(1 - 1e-8, T0), rate, T0, 1)[0] == 0
    assert next_token_at(Bucket(1 - 1e-10, T0), rate, T0) == T0


def test_tokens_are_given_back_at_the_later_of_both_clocks():
    rate = Rate(60.0, 5.0)
    assert give_back(Bucket(1.0, T0), rate, T0 + timedelta(seconds=1), 2) == Bucket(4.0, T0 + timedelta(seconds=1))
    assert give_back(Bucket(1.0, T0), rate, T0 - timedelta(seconds=1), 2) == Bucket(3.0, T0)
    assert give_back(Bucket(), rate, T0, 2) == Bucket(5.0, T0)


def test_the_next_token_comes_at_the_rate():
    rate = Rate(30.0, 5.0)
    assert next_token_at(Bucket(1.0, T0), rate, T0) == next_token_at(Bucket(4.0, T0), rate, T0) == T0
    assert next_token_at(Bucket(0.25, T0), rate, T0) == T0 + timedelta(seconds=1.5)
    assert next_token_at(Bucket(1 - 1e-6, T0), rate, T0) == T0 + timedelta(microseconds=2)
