"""Full jitter: the whole range up to a ceiling that doubles, and no further than its cap."""

import random

import pytest

from kernel.jitter import ceiling, full_jitter


@pytest.mark.parametrize(
    ("step", "most"), [(-1, 3.0), (0, 3.0), (1, 3.0), (2, 6.0), (3, 12.0), (6, 96.0), (7, 100.0), (10_000, 100.0)]
)
def test_the_ceiling_doubles_with_every_step_up_to_the_cap(step, most):
    assert ceiling(3.0, 100.0, step) == most


def test_it_doubles_thirty_times_at_most():
    assert ceiling(1.0, 1e12, 31) == ceiling(1.0, 1e12, 32) == 2.0**30


def test_it_is_uniform_from_nothing_to_the_ceiling():
    rng = random.Random(1)
    waits = sorted(full_jitter(rng, 3.0, 100.0, 2) for _ in range(1000))
    assert 0 <= waits[0] < 0.1 and 5.9 < waits[-1] <= 6.0
    assert 2.5 < waits[500] < 3.5
