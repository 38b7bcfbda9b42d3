"""Times as the sandbox's APIs write and read them: ISO 8601 in UTC; Unix seconds are understood too."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


_ROUNDING = 1e-6


def lower_bound(text: str) -> float:
    """Unix seconds from either form. Raises ValueError. A `+` that arrived as a space is forgiven.

    A microsecond early: `iso` rounds, and whatever was shown with a time has to be found again from that time on.
    """
    try:
        return float(text) - _ROUNDING
    except ValueError:
        moment = datetime.fromisoformat(text.strip().replace(" ", "+" if "T" in text else "T"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - _ROUNDING
