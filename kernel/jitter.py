"""Full jitter: what failed together must not come back together. Pure: the random generator comes in."""

from __future__ import annotations

import random

DOUBLINGS_MOST = 30


def full_jitter(rng: random.Random, base: float, cap: float, step: int) -> float:
    """Seconds, uniform in 0…`ceiling(base, cap, step)`; `step` counts from 1."""
    return rng.uniform(0.0, ceiling(base, cap, step))


def ceiling(base: float, cap: float, step: int) -> float:
    """The most that the step waits: `base` doubled with every step, `cap` at most."""
    return min(cap, base * 2.0 ** min(max(step, 1) - 1, DOUBLINGS_MOST))
