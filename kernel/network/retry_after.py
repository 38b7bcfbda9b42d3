"""A stranger's `Retry-After` as seconds. Pure; the one reader of that header, whoever sent it.

What it says is a hint: it may lengthen a wait of ours, and whoever asks keeps a lower bound of their own.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_SECONDS = 24 * 3600
_DIGITS = re.compile(r"[0-9]{1,10}")


def seconds_to_wait(value: str | None, now: datetime) -> float | None:
    """Seconds (RFC 9110 §10.2.3: a number of them, or an HTTP date), within 0…24 h; None where it cannot be read."""
    value = (value or "").strip()
    if _DIGITS.fullmatch(value):
        return float(min(int(value), MAX_RETRY_AFTER_SECONDS))
    try:
        at = parsedate_to_datetime(value)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        seconds = (at - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), float(MAX_RETRY_AFTER_SECONDS))
