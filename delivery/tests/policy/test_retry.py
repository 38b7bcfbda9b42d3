"""Backoff stays in its bounds, and says in words when it gives up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.policy.retry import gives_up_after, in_words, own_fault_delay, schedule_for

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
    ("profile", "delays"), [("custom", []), ("custom", [-1]), ("custom", [700_000]), ("other", [])]
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
