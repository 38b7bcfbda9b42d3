"""How long the task side waits before it tries again. Pure; seconds out.

Full jitter (uniform in 0…cap) keeps tasks that failed together from coming back together.
"""

import random

from kernel.jitter import full_jitter

_random = random.SystemRandom()
ATTEMPT_BASE, ATTEMPT_CAP = 5.0, 900.0
FETCH_BASE, FETCH_CAP = 1.0, 300.0
HOLD_BASE, HOLD_CAP = 1.0, 60.0


def before_attempt(failed: int) -> float:
    """After the `failed`-th attempt of a task failed upstream: a new external job, so not in a hurry."""
    return _jittered(ATTEMPT_BASE, ATTEMPT_CAP, failed)


def before_fetch(tries: int, told: float | None = None) -> float:
    """After the `tries`-th fetch came back without the result. Never at once: the provider needs a moment."""
    wait = 0.5 + _jittered(FETCH_BASE, FETCH_CAP, tries)
    return max(wait, told) if told is not None else wait


def hold_kind(failures: int, told: float | None = None) -> float:
    """How long a kind starts nothing after the `failures`-th start call in a row that the provider could not take.

    What we were told may lengthen it. It undercuts our own wait once at most, and "at once" never does.
    """
    if told and failures <= 1:
        return told + _random.uniform(0.1, 0.5)
    return max(told or 0.0, 0.5 + _jittered(HOLD_BASE, HOLD_CAP, failures))


def _jittered(base: float, cap: float, step: int) -> float:
    return full_jitter(_random, base, cap, step)
