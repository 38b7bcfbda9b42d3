"""Values cut to what their columns hold. A delivery that was made must never be undone because a figure was too large.

Nothing here raises: a number that is none becomes 0, a text that PostgreSQL cannot store loses what hinders it.
"""

from __future__ import annotations

SMALL_MOST = 2**15 - 1  # smallint
WHOLE_MOST = 2**31 - 1  # integer
DELAY_MOST = 400 * 86_400.0  # seconds: longer than any wait that a policy may ask for
MS_MOST = 1e12  # thirty years


def small(value: float | None) -> int:
    """For a smallint that is not negative."""
    return int(within(value, SMALL_MOST))


def whole(value: float | None) -> int:
    """For an integer that is not negative: 24.8 days, if it counts milliseconds."""
    return int(within(value, WHOLE_MOST))


def milliseconds(value: float | None) -> float:
    """A duration that is finite and not negative."""
    return within(value, MS_MOST)


def within(value: float | None, most: float) -> float:
    """0 to `most`; what is no number counts as 0."""
    if value is None or not value > 0:  # NaN is not, either
        return 0
    return value if value < most else most


def text(value: str, most: int) -> str:
    """At most so many characters; no NUL, and no half of a surrogate pair."""
    if value.isascii() and len(value) <= most and "\x00" not in value:
        return value
    return value.encode("utf-8", "replace").decode().replace("\x00", "")[:most]


def words(value: str, most: int) -> str:
    """A list with commas between, without the last ones that do not fit."""
    return value if len(value) <= most else text(value, most).rpartition(",")[0]
