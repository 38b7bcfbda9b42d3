"""A stranger's `Retry-After` as seconds. Pure; the one reader of that header, whoever sent it.

What it says is a hint: it may lengthen a wait of ours, and whoever asks keeps a lower bound of their own. Nought, or a
moment that is over, says nothing about how long; 24 hours is the most that anybody is believed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_SECONDS = 24 * 3600
MAX_HEADER = 100  # letters; a date has 33 at most
_DIGITS = re.compile(r"[0-9]+")


def seconds_to_wait(value: str | None, now: datetime, date: str | None = None) -> float | None:
    """Seconds (RFC 9110 §10.2.3: a number of them, or an HTTP date), within 0…24 h; None where it cannot be read.

    `date` is the same answer's Date header: a moment on the sender's clock is counted from that clock, not from ours.
    """
    value = (value or "").strip()
    if _DIGITS.fullmatch(value):
        digits = value.lstrip("0")  # of any length: int() of thousands of them raises
        return float(MAX_RETRY_AFTER_SECONDS if len(digits) > 9 else min(int(digits or 0), MAX_RETRY_AFTER_SECONDS))
    at = _moment(value)
    if at is None:
        return None
    seconds = (at - (_moment((date or "").strip()) or now)).total_seconds()
    return min(max(seconds, 0.0), float(MAX_RETRY_AFTER_SECONDS))


def _moment(value: str) -> datetime | None:
    """An HTTP date in any of its three forms (RFC 9110 §5.6.7)."""
    if len(value) > MAX_HEADER:
        return None
    try:
        at = parsedate_to_datetime(value)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
