"""How long an account is left alone. Pure; seconds out, with full jitter."""

import random

from kernel.jitter import full_jitter

_random = random.SystemRandom()
BASE, CAP = 1.0, 60.0
DENIED_BASE, DENIED_CAP = 30.0, 300.0


def hold_account(failures: int, told: float | None = None, *, is_denied: bool = False) -> float:
    """How long an account starts nothing after the `failures`-th call in a row that the provider could not take.

    What we were told may lengthen it. It undercuts our own wait once at most, and "at once" never does. Where our key
    is refused a person has to act: asking often would only lock us out.
    """
    if is_denied:
        return DENIED_BASE + full_jitter(_random, DENIED_BASE, DENIED_CAP, failures)
    if told and failures <= 1:
        return told + _random.uniform(0.1, 0.5)
    return max(told or 0.0, 0.5 + full_jitter(_random, BASE, CAP, failures))
