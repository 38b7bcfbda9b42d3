"""System checks of what the database holds; Django asks them before `migrate`, and with `check --database default`."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DatabaseError

from console.health import leftovers


@register(Tags.database)
def nothing_of_a_demo(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """Before the first migration there are no tables, and so nothing of a demo."""
    try:
        found = leftovers.found() if databases else []
    except DatabaseError:
        return []
    return [Warning(f"This database was a demo's: {one.words}.", hint=one.remedy, id="console.W001") for one in found]
