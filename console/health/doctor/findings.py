"""What the doctor says of one thing: well, wrong (`Check`), or not tried and why. Pure, but for what a look does."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from console.health.checks import Check

NAMED = 10  # of many things alike; the others are counted


@dataclass(frozen=True)
class NotTried:
    """One thing that nothing is known of, and why it was left out."""

    name: str
    words: str


Finding = Check | NotTried


@dataclass(frozen=True)
class Look:
    """One thing to look at. `needs`: what must have been found well before; `is_long`: it takes seconds, or writes."""

    name: str
    look: Callable[[], Finding | Iterable[Finding]]
    needs: tuple[str, ...] = ()
    is_long: bool = False


def guarded(look: Look) -> Iterator[Finding]:
    """What it finds; whatever it raises is a finding too, so that the rest is still examined."""
    try:
        found = look.look()
        yield from [found] if isinstance(found, Check | NotTried) else found
    except Exception as error:  # noqa: BLE001 - a server that went away, or a fault of ours: told
        words = (
            f"Could not be examined ({type(error).__name__} in {_where(error)}). Mend what else is named here and run "
            "the doctor again; if this stays, report it with these words."
        )
        yield Check(look.name, False, words)


def _where(error: Exception) -> str:
    """The place of ours that it came through last. Never its text, which may hold an address or a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    last = next((one for one in reversed(frames) if _is_ours(one.filename)), frames[-1])
    return f"{Path(last.filename).name}:{last.lineno}"


def _is_ours(name: str) -> bool:
    return Path(name).is_relative_to(settings.BASE_DIR) and "site-packages" not in name


def named(what: list[str]) -> str:
    """The first of them, and how many there are beside."""
    more = f" and {len(what) - NAMED:,} more" if len(what) > NAMED else ""
    return f"{', '.join(what[:NAMED])}{more}"
