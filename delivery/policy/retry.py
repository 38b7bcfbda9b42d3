"""When a failed delivery is tried again, and when it gives up.

Pure: the random generator comes in, nothing sleeps. Delays are seconds after the failed attempt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kernel.jitter import ceiling

SPEC_BASE_SECONDS = 30.0
SPEC_CAP_SECONDS = 3600.0
# Standard Webhooks' example schedule (spec §"Deliverability and reliability").
STANDARD_STEPS = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
STANDARD_JITTER = 0.2
OWN_FAULT_SECONDS = (1.0, 5.0)
THROTTLE_WINDOW_SECONDS = 72 * 3600.0  # the least that a throttled delivery is kept alive
THROTTLE_BASE_SECONDS, THROTTLE_CAP_SECONDS = 1.0, 3600.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Delays by failed attempt. `bounds(n)` is the range that the n-th delay is drawn from, uniformly.

    Full jitter (0…step) for `spec`, so that a receiver that comes back is not met by everybody at once; ±20 % round
    each step for the two others, whose steps are meant as said. Past the last step it repeats.
    """

    profile: str
    steps: tuple[float, ...] = ()

    @property
    def not_found_is_transient(self) -> bool:
        """A 404 during a deploy is no verdict; only the specification's own profile takes it as one."""
        return self.profile != "spec"

    def bounds(self, failed_attempts: int) -> tuple[float, float]:
        """(least, most) seconds until the next attempt after this many failed ones, counted from 1."""
        if failed_attempts < 1:
            raise ValueError("the first delay follows the first failed attempt")
        if self.profile == "spec":
            return 0.0, ceiling(SPEC_BASE_SECONDS, SPEC_CAP_SECONDS, failed_attempts)
        step = self.steps[min(failed_attempts, len(self.steps)) - 1]
        return step * (1 - STANDARD_JITTER), step * (1 + STANDARD_JITTER)

    def delay(self, failed_attempts: int, rng: random.Random) -> float:
        return rng.uniform(*self.bounds(failed_attempts))

    def window_seconds(self, max_attempts: int) -> float:
        """From the first attempt to giving up, at most, the attempts' own time left out."""
        return sum(self.bounds(n)[1] for n in range(1, max_attempts))

    def throttle_window_seconds(self, max_attempts: int) -> float:
        """How long a delivery may be told to wait before it is a dead letter: the profile's window, 72 h at least."""
        return max(THROTTLE_WINDOW_SECONDS, self.window_seconds(max_attempts))


_SPEC = Schedule("spec")
_STANDARD = Schedule("standard", STANDARD_STEPS)


def schedule_for(profile: str, delays: Sequence[float] = ()) -> Schedule:
    """The schedule of an endpoint: profile `spec`, `standard` or `custom` (with its delays in seconds)."""
    if profile == "spec":
        return _SPEC
    if profile == "standard":
        return _STANDARD
    if profile != "custom":
        raise ValueError(f"Unknown retry profile {profile!r}: use spec, standard or custom.")
    if not delays or any(not 0 <= delay <= 7 * 86_400 for delay in delays):
        raise ValueError("Custom retry delays: one or more, each from 0 seconds to 7 days.")
    return Schedule("custom", tuple(float(delay) for delay in delays))


def throttle_wait(schedule: Schedule, told: float | None, times: int, rng: random.Random) -> float:
    """Seconds to wait after the `times`-th throttled answer in a row, counted from 1.

    The first time as the receiver said, or one step of the profile where it said nothing. From the second on what it
    says may lengthen our own back-off, and never undercuts it: "at once" or a date in the past is good for one try.
    """
    if times <= 1 and told is not None:
        return told
    own = schedule.delay(max(1, times - 1), rng)
    least = min(THROTTLE_CAP_SECONDS, THROTTLE_BASE_SECONDS * 2.0 ** min(max(times, 2) - 2, 20))
    return max(told or 0.0, min(own, THROTTLE_CAP_SECONDS), min(least, 60.0))


def own_fault_delay(rng: random.Random) -> float:
    """Seconds until a try that failed by our own fault is made again; soon, but not all at once."""
    return rng.uniform(*OWN_FAULT_SECONDS)


def gives_up_after(schedule: Schedule, max_attempts: int) -> str:
    """In words for page and API: "after 5 attempts, about 8 minutes after the first"."""
    if max_attempts <= 1:
        return "after the first failed attempt"
    return f"after {max_attempts} attempts, {in_words(schedule.window_seconds(max_attempts))} after the first"


def in_words(seconds: float) -> str:
    """A duration as a person says it: "about 8 minutes"."""
    if seconds < 1:
        return "at once"
    units = (("second", 1, 90), ("minute", 60, 5400), ("hour", 3600, 172_800), ("day", 86_400, float("inf")))
    unit, size = next((unit, size) for unit, size, limit in units if seconds < limit)
    count = max(1, int(seconds / size + 0.5))
    return f"about {count} {unit}{'' if count == 1 else 's'}"
