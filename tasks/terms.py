"""On what terms a task is submitted: how urgent it is, until when it may start, and what it is the only one of.

Checked here for the API, the commands, schedules and code alike. A bad one is refused in words, and nothing is stored.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from tasks.engine import uniqueness
from tasks.errors import InvalidTerms, UniqueTaken
from tasks.models import Task
from tasks.states import KeyHeld, Priority

MAX_UNIQUE_KEY = 200
KEYS_INDEX = "task_unique_key"
PRIORITIES = {priority.label: priority for priority in Priority}


@dataclass(frozen=True, slots=True)
class Terms:
    """`unique_key` is unique within kind and subscriber, for as long as `unique_while` says."""

    priority: str = "normal"
    expires_at: datetime | None = None
    unique_key: str = ""
    unique_while: str = KeyHeld.OPEN.value

    def checked(self, due: datetime) -> "Terms":
        """Raises InvalidTerms. `due` is when the task would start at the earliest."""
        if self.priority not in PRIORITIES:
            raise wrong(
                "priority", "unknown_priority", f"There is no such priority; there are {', '.join(PRIORITIES)}."
            )
        if self.unique_while not in KeyHeld.values:
            raise wrong("unique_while", "unknown_word", f"This must be one of {', '.join(KeyHeld.values)}.")
        key = self.unique_key
        if not isinstance(key, str) or len(key) > MAX_UNIQUE_KEY or "\x00" in key:
            raise wrong("unique_key", "too_long", f"This must be text of at most {MAX_UNIQUE_KEY} characters.")
        self._refuse_bad_expiry(due)
        return self

    def _refuse_bad_expiry(self, due: datetime) -> None:
        at = self.expires_at
        if at is None:
            return
        if not isinstance(at, datetime) or at.tzinfo is None:
            raise wrong("expires_at", "invalid", "This must be a time with its zone.")
        if at <= due:
            raise wrong("expires_at", "too_early", "It would expire before it may start. Give a later time, or none.")

    def of_item(self, item: Any) -> "Terms":
        """These, with what an item of a batch says for itself."""
        said = {name: item[name] for name in ("priority", "unique_key") if item.get(name)}
        return replace(self, **said) if said else self

    def fields(self) -> dict[str, Any]:
        """As a task's row has them."""
        return {
            "priority": PRIORITIES[self.priority],
            "expires_at": self.expires_at,
            "unique_key": self.unique_key,
            "unique_while": self.unique_while,
        }


def wrong(field: str, code: str, detail: str) -> InvalidTerms:
    return InvalidTerms(f"{field}: {detail}", errors=[{"field": field, "code": code, "detail": detail}])


@contextmanager
def keys_free(tasks: Sequence[Task]) -> Iterator[None]:
    """Store these within; raises UniqueTaken with a row for each of them whose key is held, by another or in here."""
    if not any(task.unique_key for task in tasks):
        yield
        return
    _refuse_taken(tasks)
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:  # somebody was quicker, and has committed
        if KEYS_INDEX not in str(error):
            raise
        _refuse_taken(tasks)
        raise UniqueTaken("Another task took this unique key at this moment, and has ended. Try again.") from None


def _refuse_taken(tasks: Sequence[Task]) -> None:
    first = tasks[0]
    held = uniqueness.holders(first.kind, first.subscriber, {task.unique_key for task in tasks})
    seen: dict[str, int] = {}
    rows = []
    for index, task in enumerate(tasks):
        name = f"tasks.{index}.unique_key" if task.batch is not None else "unique_key"
        if task.unique_key in held:
            words = f"Task {held[task.unique_key]} holds this unique key. Wait for its end, or use another key."
            rows.append({"field": name, "code": UniqueTaken.code, "detail": words, "task": str(held[task.unique_key])})
        elif task.unique_key and seen.setdefault(task.unique_key, index) != index:
            words = f"Item {seen[task.unique_key]} of this batch has this unique key too."
            rows.append({"field": name, "code": UniqueTaken.code, "detail": words})
    if rows:
        raise UniqueTaken(rows[0]["detail"], errors=rows)
