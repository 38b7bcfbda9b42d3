"""Backoff stays in its bounds, and says in words when it gives up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.policy.retry import Schedule, gives_up_after, in_words, own_fault_delay, schedule_for, throttle_wait

SPEC, STANDARD = schedule_for("spec"), schedule_for("standard")


@given(st.integers(1, 10_000), st.integers())
def test_spec_is_full_jitter(failed, seed):
    delay = SPEC.delay(failed, random.Random(seed))
    assert 0 <= delay <= min(3600, 30 * 2 ** (failed - 1) if failed < 40 else 3600)


def test_spec_steps_are_the_specifications():
    assert [SPEC.bounds(n)[1] for n in (1, 2, 3, 4, 7, 8, 9)] == [30, 60, 120, 240, 1920, 3600, 3600]


def test_spec_is_spread_over_the_whole_range():
    rng = random.Random(1)
    delays = sorted(SPEC.delay(4, rng) for _ in range(2000))
    assert delays[0] < 5
    assert delays[-1] > 235
    assert 100 < delays[1000] < 140


@given(st.integers(1, 50), st.integers(), st.lists(st.integers(0, 604_800), min_size=1, max_size=12))
def test_steps_are_jittered_by_a_fifth_and_the_last_repeats(failed, seed, delays):
    for schedule, steps in ((STANDARD, STANDARD.steps), (schedule_for("custom", delays), delays)):
        step = steps[min(failed, len(steps)) - 1]
        assert step * 0.8 - 1e-6 <= schedule.delay(failed, random.Random(seed)) <= step * 1.2 + 1e-6


@pytest.mark.parametrize(
    ("profile", "delays"), [("custom", []), ("custom", [-1]), ("custom", [700_000]), ("other", []), ("other", [60])]
)
def test_nonsense_is_refused_in_words(profile, delays):
    with pytest.raises(ValueError, match=r"retry"):
        schedule_for(profile, delays)


def test_in_words():
    assert gives_up_after(SPEC, 5) == "after 5 attempts, about 8 minutes after the first"
    assert gives_up_after(SPEC, 1) == "after the first failed attempt"
    assert gives_up_after(STANDARD, 10) == "after 10 attempts, about 4 days after the first"
    assert gives_up_after(schedule_for("custom", [0]), 3) == "after 3 attempts, at once after the first"
    assert [in_words(s) for s in (1, 60, 100, 3600, 7200, 86_400 * 3)] == [
        "about 1 second",
        "about 60 seconds",
        "about 2 minutes",
        "about 60 minutes",
        "about 2 hours",
        "about 3 days",
    ]


def test_only_the_specifications_profile_takes_a_404_as_a_verdict():
    assert not SPEC.not_found_is_transient
    assert STANDARD.not_found_is_transient


def test_own_faults_are_tried_again_soon_but_spread():
    assert {1 <= own_fault_delay(random.Random(n)) <= 5 for n in range(50)} == {True}


def test_own_faults_wait_for_the_whole_range_of_one_to_five_seconds():
    rng = random.Random(1)
    delays = sorted(own_fault_delay(rng) for _ in range(1000))
    assert 1.0 <= delays[0] < 1.05 and 4.95 < delays[-1] <= 5.0


def test_the_standard_schedule_is_standard_webhooks_example_and_ours_begins_at_nothing():
    minute, hour = 60, 3600
    steps = (5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour)
    assert STANDARD.steps == steps
    assert STANDARD.bounds(1) == (4.0, 6.0)
    assert SPEC.bounds(1) == (0.0, 30.0)


def test_the_first_delay_follows_the_first_failed_attempt():
    for schedule in (SPEC, STANDARD):
        with pytest.raises(ValueError, match="first failed attempt"):
            schedule.bounds(0)


def test_the_window_is_the_longest_way_to_giving_up():
    assert [SPEC.window_seconds(attempts) for attempts in (0, 1, 2, 3, 5)] == [0, 0, 30, 90, 450]


def test_a_throttled_delivery_lives_three_days_or_as_long_as_its_profile():
    assert SPEC.throttle_window_seconds(5) == 72 * 3600
    long = Schedule("custom", (604_800.0,))
    assert long.throttle_window_seconds(3) == long.window_seconds(3) == pytest.approx(2 * 604_800 * 1.2)


def test_custom_delays_go_from_at_once_to_seven_days():
    assert schedule_for("custom", [0, 604_800]) == Schedule("custom", (0.0, 604_800.0))
    for delay in (-0.5, 604_800.5):
        with pytest.raises(ValueError, match="7 days"):
            schedule_for("custom", [1, delay])


class Drawn(random.Random):
    """Draws the least or the most of every range."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.share


@pytest.mark.parametrize(
    ("told", "times", "least", "most"),
    [
        (0.0, 0, 0, 0),
        (0.0, 1, 0, 0),  # at once, as it said: good for one try
        (7.0, 1, 7, 7),
        (7_200.0, 1, 7_200, 7_200),
        (0.0, 2, 1, 30),
        (7.0, 2, 7, 30),
        (None, 0, 1, 30),
        (None, 1, 1, 30),  # nothing said: one step of the profile, a second at least
        (None, 2, 1, 30),
        (None, 3, 2, 60),
        (None, 4, 4, 120),
        (None, 7, 32, 960),
        (None, 8, 60, 1_920),  # 64, but a minute at most is the least
        (None, 50, 60, 3_600),
        (7_200.0, 2, 7_200, 7_200),
    ],
)
def test_the_wait_of_a_throttled_delivery(told, times, least, most):
    assert throttle_wait(SPEC, told, times, Drawn(0)) == least
    assert throttle_wait(SPEC, told, times, Drawn(1)) == most


def test_a_profile_of_long_steps_waits_an_hour_at_most_when_throttled():
    assert throttle_wait(STANDARD, None, 5, Drawn(0.5)) == 3_600


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.9, "at once"),
        (1.4, "about 1 second"),
        (1.5, "about 2 seconds"),
        (89, "about 89 seconds"),
        (90, "about 2 minutes"),
        (5_399, "about 90 minutes"),
        (5_400, "about 2 hours"),
        (5_300, "about 88 minutes"),
        (8_999, "about 2 hours"),
        (172_799, "about 48 hours"),
        (172_800, "about 2 days"),
        (302_399, "about 3 days"),
        (302_400, "about 4 days"),
        (1e7, "about 116 days"),
    ],
)
def test_a_duration_as_a_person_says_it(seconds, words):
    assert in_words(seconds) == words


def test_giving_up_in_words():
    assert gives_up_after(SPEC, 0) == "after the first failed attempt"
    assert gives_up_after(SPEC, 2) == "after 2 attempts, about 30 seconds after the first"
