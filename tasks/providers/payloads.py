"""What the payloads of all providers have in common: a JSON object, ids, times, words of bounded length. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kernel.parsing import REPLACED, HostileJSON, tolerant_loads
from tasks.providers.base import ProviderUpdate, Unparseable

ID_LENGTH = 200
TEXT_LENGTH = 2000
WORD_LENGTH = 60


def callback(body: bytes) -> Mapping[str, Any]:
    """A callback's JSON object. Raises Unparseable."""
    try:
        said = tolerant_loads(body)
    except HostileJSON as error:
        raise Unparseable(f"{error}") from None
    if not isinstance(said, Mapping):
        raise Unparseable("the body is not a JSON object")
    return said


def job_id(value: Any) -> str:
    """As text, since some write numbers; "" where there is none that we could store and ask for again."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**ID_LENGTH else ""
    is_usable = isinstance(value, str) and 1 <= len(value) <= ID_LENGTH and REPLACED not in value
    return value if is_usable else ""


def needed_id(value: Any, name: str) -> str:
    """`job_id`. Raises Unparseable where there is none."""
    found = job_id(value)
    if not found:
        raise Unparseable(f"there is no {name} of 1 to {ID_LENGTH} characters")
    return found


def word(value: Any) -> str:
    """A status word, as it came. Raises Unparseable where there is none."""
    if not isinstance(value, str) or not value.strip():
        raise Unparseable("there is no status")
    return value[:WORD_LENGTH]


def normal(status: str) -> str:
    """How a word is looked up: providers write `TIMED-OUT` here and `TIMED_OUT` there."""
    return status.strip().lower().replace("-", "_")


def text(value: Any) -> str:
    return str(value)[:TEXT_LENGTH] if value not in (None, "", {}, []) else ""


def moment(value: Any) -> datetime | None:
    """A time with its zone; anything else says nothing."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def at(value: Any, path: str) -> Any:
    """What lies at a dotted path; None where nothing does."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def of_id(entry: Any) -> str:
    return job_id(entry.get("id")) if isinstance(entry, Mapping) else ""


def readable(read: Callable[[Any], ProviderUpdate], entry: Any, named: Callable[[Any], str] = of_id) -> ProviderUpdate:
    """One entry among others: what is wrong with it becomes its `problem`, and takes no other down."""
    try:
        return read(entry)
    except Unparseable as error:
        return ProviderUpdate(named(entry), problem=str(error))
