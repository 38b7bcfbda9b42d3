"""Types for what commands are given: each says in plain words what it wanted. Only commands import this."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, date, datetime

from django.utils import timezone
from django.utils.dateparse import parse_datetime


def whole(least: int, most: int = 1_000_000) -> Callable[[str], int]:
    """A whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise ArgumentTypeError(f"a whole number from {least} to {most} is needed, not {text[:40]!r}")
        return value

    return read


def measure(text: str) -> float:
    """A number from 0, no larger than any measure of ours; NaN is none."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise ArgumentTypeError(f"a number from 0 to 1000000000 is needed, not {text[:40]!r}")
    return value


def day(text: str) -> date:
    try:
        value = date.fromisoformat(text)
    except ValueError:
        value = date.max
    if not date.min < value < date.max:  # the day before and the day after are days too
        raise ArgumentTypeError(f"{text[:40]!r} is no day; write 2026-11-29")
    return value


def moment(text: str) -> datetime:
    """A time; one that names no zone is of ours."""
    try:
        value = parse_datetime(text)
        if value is not None:
            value = value if timezone.is_aware(value) else timezone.make_aware(value)
            return value.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ArgumentTypeError(f"{text[:40]!r} is no time; write 2026-11-29T13:00:00Z")


def short(least: int, most: int) -> Callable[[str], str]:
    """A text of so many characters, without what PostgreSQL cannot store."""

    def read(text: str) -> str:
        text = text.strip()
        if not least <= len(text) <= most or "\x00" in text:
            raise ArgumentTypeError(f"a text of {least} to {most} characters is needed")
        return text

    return read
