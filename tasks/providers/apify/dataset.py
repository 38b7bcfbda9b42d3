"""A run's dataset, paged to its end. Where its own numbers disagree with what came, both are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks.providers import results
from tasks.providers.base import BadAnswer
from tasks.providers.calling import MAX_PAGES, Answer, within_limit

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Dataset:
    """`raw` is what came, page after page; `note` what was mended in it, and where it is not what it says it is."""

    items: list[Any]
    raw: bytes
    note: str


def page(offset: int) -> dict[str, str]:
    """The query for one page. `clean` leaves out empty items and those fields that an actor hides."""
    return {"format": "json", "clean": "1", "offset": str(offset), "limit": str(PAGE)}


def whole(fetch: Callable[[int], Answer]) -> Dataset:
    """All items, by `fetch(offset)`. A short page is not the end, and the total may lag behind."""
    items: list[Any] = []
    raw: list[bytes] = []
    notes: list[str] = []
    scanned = total = 0
    for _ in range(MAX_PAGES):
        answer = fetch(scanned)
        read = results.read(answer.content)
        if not isinstance(read.value, list):
            raise BadAnswer("The dataset cannot be used: a page of it is not a list.", raw=answer.content)
        rows, total = max(_number(answer, "count"), len(read.value)), _number(answer, "total")
        if rows and scanned >= total and raw and answer.content == raw[-1]:
            raise BadAnswer("The dataset does not end: the same page comes again.", raw=answer.content)
        items += read.value
        raw.append(answer.content)
        within_limit(sum(map(len, raw)))
        notes += [read.note] if read.note else []
        scanned += rows
        if not rows or scanned == total:
            break
    else:
        raise BadAnswer(f"The dataset has more than {MAX_PAGES:,} pages.")
    if scanned != total:
        notes.append(f"The dataset says that it has {total:,} items, and {scanned:,} came.")
    return Dataset(items, b"\n".join(raw), " ".join(notes))


def _number(answer: Answer, name: str) -> int:
    """Of the pagination headers; 0 where it says nothing."""
    text = answer.headers.get(f"x-apify-pagination-{name}", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0
