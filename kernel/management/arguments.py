"""Types for what commands are given: each says in plain words what it wanted. Only commands import this."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import date


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


def day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text[:40]!r} is no day; write 2026-11-29") from None


def short(least: int, most: int) -> Callable[[str], str]:
    """A text of so many characters, without what PostgreSQL cannot store."""

    def read(text: str) -> str:
        text = text.strip()
        if not least <= len(text) <= most or "\x00" in text:
            raise ArgumentTypeError(f"a text of {least} to {most} characters is needed")
        return text

    return read
