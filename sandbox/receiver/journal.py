"""What the receiver got, kept lean: an entry for each request, and for the newest ones their headers and body.

Bounded twice: by entries, and by bytes of detail. An entry whose detail is gone still counts in the summary.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from sandbox.receiver.summary import summary_of
from sandbox.times import iso
from sandbox.web import Headers

SKIPPED_HEADERS = frozenset((b"host", b"accept", b"accept-encoding", b"connection", b"content-length", b"expect"))
BODY_BYTES = 16 * 1024
_DETAIL_OVERHEAD = 41  # of a bytes object and its place in the row
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Za-z0-9_.\-]{1,100})"')


class Entry(NamedTuple):
    """One request, as it is read back."""

    at: float
    method: bytes
    path: str
    query: str
    webhook_id: bytes
    status: int
    """What was answered; 0 where the connection was closed without an answer."""
    signature: str
    type: str


Row = tuple[Any, ...]
AT, _, PATH, _, WEBHOOK_ID, _, SIGNATURE, TYPE = range(len(Entry._fields))


class Journal:
    """Entries are kept in columns: a third of the memory of objects, and nothing for the garbage collector to walk."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._columns: list[deque[Any]] = [deque(maxlen=max_entries) for _ in Entry._fields]
        self._types: dict[bytes, str] = {}
        self._methods: dict[bytes, bytes] = {}
        self.clear()

    def clear(self) -> None:
        for column in self._columns:
            column.clear()
        self._details: deque[bytes] = deque()  # of the newest entries: headers, an empty line, body
        self._bytes = 0
        self.total = 0

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(
        self,
        at: float,
        method: bytes,
        path: str,
        query: str,
        headers: Headers,
        body: bytes,
        webhook_id: bytes,
        status: int,
        signature: str,
    ) -> None:
        method = self._methods.setdefault(method, method)
        entry = (at, method, path, query, webhook_id, status, signature, self._type_of(body))
        for column, value in zip(self._columns, entry, strict=True):
            column.append(value)
        self.total += 1
        lines = [b"%b: %b" % pair for pair in headers if pair[0] not in SKIPPED_HEADERS]
        detail = b"\n".join([*lines, b"", body if len(body) <= BODY_BYTES else body[:BODY_BYTES]])
        self._details.append(detail)
        self._bytes += len(detail) + _DETAIL_OVERHEAD
        while self._bytes > self._max_bytes or len(self._details) > len(self._columns[0]):
            self._bytes -= len(self._details.popleft()) + _DETAIL_OVERHEAD

    def _type_of(self, body: bytes) -> str:
        """The event's type, without parsing JSON; the few different ones are kept once."""
        if not (match := _TYPE.match(body)):
            return ""
        known = self._types.get(match[1])
        if known is None:
            known = match[1].decode()
            if len(self._types) < 1000:
                self._types[match[1]] = known
        return known

    def select(
        self,
        *,
        path: str = "",
        since: float = 0.0,
        after: int = 0,
        webhook_id: str = "",
        type: str = "",
        signature: str = "",
    ) -> Iterator[tuple[int, Row]]:
        """Numbered rows, oldest first. `path` takes in everything below it."""
        wanted_id, below = webhook_id.encode(), path.rstrip("/") + "/"
        first = self.total - len(self) + 1
        rows = islice(zip(*self._columns, strict=True), max(0, after - first + 1), None)
        numbered = enumerate(rows, max(first, after + 1))
        if not (path or since or webhook_id or type or signature):
            yield from numbered
            return
        for number, row in numbered:
            if (
                (not path or row[PATH] == path or row[PATH].startswith(below))
                and row[AT] >= since
                and (not wanted_id or row[WEBHOOK_ID] == wanted_id)
                and (not type or row[TYPE] == type)
                and (not signature or row[SIGNATURE] == signature)
            ):
                yield number, row

    def page(self, *, limit: int, offset: int, newest_first: bool, **filters: Any) -> dict[str, Any]:
        numbered = list(self.select(**filters))
        if newest_first:
            numbered.reverse()
        shown = [_shown(number, Entry(*row), self._detail(number)) for number, row in numbered[offset : offset + limit]]
        return {"count": len(numbered), "total": self.total, "entries": shown}

    def _detail(self, number: int) -> bytes | None:
        """None once it had to make room."""
        index = number - 1 - (self.total - len(self._details))
        return self._details[index] if index >= 0 else None

    def summary(self, **filters: Any) -> dict[str, Any]:
        """Counts over the entries still kept; `truncated` says when there were more."""
        return {
            **summary_of(row for _, row in self.select(**filters)),
            "total": self.total,
            "truncated": self.total > len(self),
        }


def _shown(number: int, entry: Entry, detail: bytes | None) -> dict[str, Any]:
    headers: dict[str, str] = {}
    body = None
    if detail is not None:
        lines, _, raw = (b"\n" + detail).partition(b"\n\n")
        for line in lines[1:].split(b"\n") if lines else ():
            name, _, value = line.partition(b": ")
            headers[name.decode("latin-1")] = value.decode("latin-1")
        body = raw.decode("utf-8", "replace")
    return {
        "n": number,
        "at": iso(entry.at),
        "method": entry.method.decode("latin-1"),
        "path": entry.path,
        "query": entry.query,
        "webhook_id": entry.webhook_id.decode("latin-1") or None,
        "type": entry.type or None,
        "status": entry.status or None,
        "signature": entry.signature,
        "correlation_id": headers.get("x-correlation-id"),
        "headers": headers,
        "body": body,
    }
