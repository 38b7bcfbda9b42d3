"""How many calls a second a caller may make: a token bucket that holds two seconds' worth."""

from __future__ import annotations


class CallLimit:
    def __init__(self) -> None:
        self._tokens = 0.0
        self._at: float | None = None

    def wait_seconds(self, per_second: float, now: float) -> float:
        """0 when the call may go ahead (and is counted), else how long to wait. A rate of 0 means no limit."""
        if per_second <= 0:
            return 0
        if self._at is None:
            self._tokens, self._at = 2 * per_second, now
        self._tokens = min(2 * per_second, self._tokens + (now - self._at) * per_second)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        return (1 - self._tokens) / per_second
