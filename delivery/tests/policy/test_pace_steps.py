"""Each step of the learned pace by its numbers; what they come to against a receiver stands in `test_pace`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from delivery.policy import pace as paces
from delivery.policy.pace import NO_PACE, Pace
from kernel.token_bucket import Bucket, Rate

T0 = datetime(2026, 5, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def throttled(pace: Pace, *, passed: int = 0, over: float = 0.0, told: bool = True, wait: float = 2.0) -> Pace:
    return paces.lowered(pace, wait=wait, told=told, passed=passed, over_seconds=over, status=429, now=at(100))


def sent(pace: Pace, count: int = 1) -> Pace:
    return paces.sent(pace, count, at(1), probe_until=at(31))


def test_nothing_is_learned_at_first():
    assert (
        Pace(per_second=None, ceiling=None, clock=0.0, sent=0, lowered_at=None, probe_until=None, streak=0, status=0)
        == NO_PACE
    )


def test_the_columns_are_read_in_their_order():
    row = SimpleNamespace(
        pace_per_second=1.0, pace_ceiling=2.0, pace_clock=3.0, pace_sent=4, pace_lowered_at=at(5),
        pace_probe_until=at(6), throttle_streak=7, throttle_status=8,
    )  # fmt: skip
    assert Pace.of(row) == Pace(1.0, 2.0, 3.0, 4, at(5), at(6), 7, 8)


# --- lowered ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passed", "over", "per_second"),
    [
        (0, 0.0, 0.5),  # nothing to go by
        (9, 1.0, 1.0),  # nine say little: 3.0 measured, one a second at most
        (9, 8.0, 0.9),
        (2, 8.0, 0.5),
        (10, 2.0, 2.5),  # ten say it: with the wait that followed
        (100, 998.0, 0.1),
        (10, 6_000.0, 1 / 60),  # never slower than one a minute
        (100_000, 8.0, 2_000.0),
    ],
)
def test_the_first_pace_is_what_was_let_pass_lately(passed, over, per_second):
    pace = throttled(NO_PACE, passed=passed, over=over)
    assert pace == Pace(pytest.approx(per_second), None, 0.0, 0, at(100), at(102), 1, 429)


def test_a_pace_can_be_measured_in_no_time():
    assert throttled(NO_PACE, passed=10, wait=0.0).per_second == 2_000.0
    assert throttled(NO_PACE, passed=10, over=1.0, wait=0.0).per_second == 10.0


@pytest.mark.parametrize(
    ("pace", "ceiling"),
    [
        (Pace(8.0, None, clock=50.0, sent=50), 6.0),  # it rose fast: three quarters of it
        (Pace(8.0, 7.9, clock=50.0, sent=50), 7.6),  # it rose slowly: close to the limit
        (Pace(8.0, 7.9, clock=50.0, sent=4), 7.6),
        (Pace(8.0, 7.9, clock=4.0, sent=50), 7.6),
        (Pace(8.0, 7.9, clock=50.0, sent=3), 6.0),  # throttled again so soon: the limit is far off
        (Pace(8.0, 7.9, clock=3.9, sent=50), 6.0),
    ],
)
def test_the_ceiling_lies_a_little_under_what_was_too_fast_and_the_pace_a_tenth_under_that(pace, ceiling):
    assert throttled(pace) == Pace(
        pytest.approx(ceiling * 0.9), pytest.approx(ceiling), 0.0, 0, at(100), at(102), 1, 429
    )


@pytest.mark.parametrize(
    ("told", "passed", "ceiling"),
    [(True, 10, 1.5), (True, 20, 3.0), (True, 9, 7.6), (False, 10, 7.6), (True, 1_000, 7.6)],
)
def test_where_the_receiver_names_a_wait_half_as_much_again_as_was_let_pass_is_the_most(told, passed, ceiling):
    pace = throttled(Pace(8.0, 7.9, clock=50.0, sent=50), told=told, passed=passed, over=8.0)
    assert pace.ceiling == pytest.approx(ceiling)


def test_pace_and_ceiling_stay_within_their_bounds():
    slow = throttled(Pace(1 / 60, 1 / 60, clock=50.0, sent=50))
    assert (slow.per_second, slow.ceiling) == (1 / 60, 1 / 60)


def test_the_one_that_goes_first_and_is_throttled_keeps_pace_and_ceiling():
    first = Pace(5.0, 6.0, 7.0, 8, at(0), at(90), 3, 503)
    assert throttled(first, passed=100, over=1.0) == Pace(5.0, 6.0, 0.0, 0, at(100), at(102), 4, 429)


def test_a_pace_of_yesterday_is_forgotten_before_it_is_lowered():
    old = Pace(8.0, 7.9, clock=50.0, sent=50, lowered_at=at(100) - timedelta(days=1))
    assert throttled(old) == Pace(0.5, None, 0.0, 0, at(100), at(102), 1, 429)


def test_without_a_pace_a_wait_is_no_reason_to_keep_looking():
    assert throttled(Pace(probe_until=at(90), streak=2)).per_second == 0.5


# --- let pass, and sent -------------------------------------------------------------------------------------------


def test_what_is_let_pass_opens_the_way_and_changes_nothing_else():
    assert paces.let_pass(Pace(5.0, 6.0, 7.0, 8, at(0), at(2), 3, 503)) == Pace(5.0, 6.0, 7.0, 8, at(0), None, 0, 503)
    assert paces.let_pass(Pace(5.0, probe_until=at(2))) == Pace(5.0)
    assert paces.let_pass(Pace(5.0, streak=1)) == Pace(5.0)
    assert paces.let_pass(open_way := Pace(5.0)) is open_way


def test_without_a_pace_or_with_nothing_sent_nothing_changes():
    assert sent(NO_PACE, 5) is NO_PACE
    assert sent(waiting := Pace(5.0, probe_until=at(2)), 0) is waiting


def test_the_one_that_goes_first_is_waited_for():
    assert sent(Pace(5.0, 5.0, probe_until=at(0))).probe_until == at(31)
    assert sent(Pace(5.0, 5.0)).probe_until is None


@pytest.mark.parametrize(
    ("per_second", "count", "risen"),
    [(1.0, 5, 2.0), (1.0, 1, 2**0.2), (1.0, 50, 2.0), (10.0, 10, 20.0), (10.0, 5, 10 * 2**0.5)],
)
def test_while_the_limit_is_unknown_the_pace_doubles_with_five_deliveries_or_a_second_of_them(per_second, count, risen):
    pace = sent(Pace(per_second, None, 1.0, 2, at(0)), count)
    assert pace == Pace(pytest.approx(risen), None, pytest.approx(1.0 + count / per_second), 2 + count, at(0))


@pytest.mark.parametrize(
    ("clock", "risen"),
    [
        (0.0, 9.0),  # a tenth under it at first
        (22.5, 9.875),
        (45.0, 10.0),  # at it
        (90.0, 11.0),
        (135.0, 18.0),
    ],
)
def test_with_a_known_limit_it_rises_along_the_curve(clock, risen):
    pace = sent(Pace(2.0, 10.0, clock - 0.5, 7, at(0)))
    assert pace == Pace(pytest.approx(risen), 10.0, pytest.approx(clock), 8, at(0))


def test_the_curve_never_lowers_it():
    assert sent(Pace(9.5, 10.0)).per_second == 9.5


def test_it_is_forgotten_above_ten_times_the_ceiling_or_the_fastest():
    forgotten = Pace(None, None, 0.0, 0, at(0), None, 3, 0)
    before = {"lowered_at": at(0), "streak": 3, "status": 429}
    assert sent(Pace(10.01, 1.0, 0.0, 7, **before)) == forgotten
    assert sent(Pace(10.0, 1.0, **before)).per_second == 10.0
    assert sent(Pace(1_500.0, None, **before), 1_500) == forgotten
    assert sent(Pace(1_000.0, None, **before), 1_000).per_second == 2_000.0
    assert sent(Pace(2_001.0, 2_001.0, **before)) == forgotten


def test_the_one_that_goes_first_raises_nothing():
    first = Pace(10.01, 1.0, 0.5, 7, at(0), at(2), 3, 429)
    assert sent(first) == Pace(10.01, 1.0, 0.5, 7, at(0), at(31), 3, 429)


def test_a_pace_of_yesterday_does_not_rise_any_more():
    old = Pace(1.0, 1.0, 5.0, 5, T0 - timedelta(days=1), status=429)
    assert sent(old) == Pace(lowered_at=old.lowered_at)


# --- what holds now -----------------------------------------------------------------------------------------------


def test_what_was_never_lowered_is_not_forgotten():
    assert paces.current(Pace(1.0), at(0)) == Pace(1.0)
    assert paces.current(waiting := Pace(None, lowered_at=at(0), streak=2), at(200_000)) is waiting
    assert paces.current(Pace(1.0, 1.0, 5.0, 5, at(0), None, 2, 429), at(86_400)) == Pace(lowered_at=at(0))


def test_a_twentieth_of_a_second_may_go_at_once_and_one_at_least():
    assert paces.limit(None, Pace(40.0), at(0)) == Rate(2_400.0, 2.0)
    assert paces.limit(None, Pace(1.0), at(0)) == Rate(60.0, 1.0)
    assert paces.limit(Rate(6_000.0, 1.0), Pace(40.0), at(0)) == Rate(2_400.0, 1.0)


def test_one_goes_first_and_then_as_many_as_there_are():
    assert [paces.room(Pace(5.0, probe_until=at(2)), wanted) for wanted in (0, 1, 9)] == [0, 1, 1]
    assert paces.room(Pace(5.0), 9) == 9


def test_one_token_is_there_when_the_wait_is_over():
    assert paces.bucket_after_wait(7.0, at(1)) == Bucket(1.0, at(8))


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (NO_PACE, ""),
        (Pace(10.0), "we send about 10/s, because they answer 429"),
        (Pace(9.9), "we send about 9.9/s, because they answer 429"),
        (Pace(0.5), "we send about 0.5/s, because they answer 429"),
        (Pace(0.426), "we send about 26 a minute, because they answer 429"),
        (Pace(0.49), "we send about 29 a minute, because they answer 429"),
    ],
)
def test_in_words_without_a_status_it_was_a_429(pace, words):
    assert paces.in_words(pace, at(0)) == words
