"""Whose fault it is when our own code fails on a delivery: that one row's, or this process's.

Pure. A row that fails where others pass is to blame itself. Where rows of several endpoints and events fail the same
way and none passes, the process is sick (a file of its own is gone, a library does not load, a bug meets everything):
it stops claiming, for longer and longer, so that a healthy one can have the rows, and nobody is charged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

MANY = 2
PAUSE_LEAST_SECONDS, PAUSE_MOST_SECONDS = 1.0, 30.0
STOPS_MOST = 16  # the pause no longer grows by then
SLOTS_OF_A_TRY = 4  # enough to meet several endpoints, few enough to cost nothing


class Blame(Enum):
    ROW = "row"
    UNKNOWN = "unknown"  # nothing has ever passed here, and one endpoint alone failed
    PROCESS = "process"


@dataclass(slots=True)
class Met:
    """Whom one way to fail has met. Of several endpoints and several events: one bad event goes to many endpoints."""

    endpoints: set[int] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    @property
    def is_many(self) -> bool:
        return min(len(self.endpoints), len(self.events)) >= MANY

    def note(self, endpoint: int, event: str) -> None:
        if not self.is_many:  # or it would grow for as long as the process is sick
            self.endpoints.add(endpoint)
            self.events.add(event)


@dataclass(slots=True)
class Stage:
    """One thing that is done to every row (building its request, judging its result), in one process."""

    has_passed: bool = False
    failing: dict[str, Met] = field(default_factory=dict)  # since something passed last
    stops: int = 0
    until: float = 0.0

    def passed(self) -> None:
        self.has_passed, self.stops, self.until = True, 0, 0.0
        self.failing.clear()

    def failed(self, how: str, endpoint: int, event: str, now: float, *, others_passed: bool) -> Blame:
        """Note a failure at `now` (seconds, of any clock that runs on). `others_passed`: in the same batch."""
        if others_passed:
            return Blame.ROW
        met = self.failing.setdefault(how, Met())
        met.note(endpoint, event)
        if met.is_many:
            if self.until <= now:
                self.stops = min(self.stops + 1, STOPS_MOST)
                self.until = now + min(PAUSE_MOST_SECONDS, PAUSE_LEAST_SECONDS * 2 ** (self.stops - 1))
            return Blame.PROCESS
        return Blame.ROW if self.has_passed else Blame.UNKNOWN


@dataclass(slots=True)
class ProcessFaults:
    """What one process remembers of its own failures."""

    building: Stage = field(default_factory=Stage)
    judging: Stage = field(default_factory=Stage)

    @property
    def until(self) -> float:
        """Nothing is claimed before."""
        return max(self.building.until, self.judging.until)

    @property
    def is_trying(self) -> bool:
        """It has stopped, and nothing has passed since: the next claim is a small one."""
        return bool(self.building.stops or self.judging.stops)
