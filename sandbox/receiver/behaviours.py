"""What a path does with a request: one function per first word of the path. Each says the status it will answer.

The misbehaving ones are what the product's deadlines, caps and rules are tried on.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

from sandbox.web import Outcome, Request, answer, head, json_answer

CLOSED = 0
"""Status of a request that gets no answer."""
HUGE_BYTES = 1024**3
BOMB_BYTES = 512 * 1024**2
DRIP_BYTES = 3600

Behaviour = Callable[[Request], tuple[int, Outcome]]
Maker = Callable[[list[str]], Behaviour]
"""Takes the path's words after the first; what it does not need is the caller's suffix."""

_OK = json_answer(200, {"ok": True})
_NOT_FOUND = json_answer(404, {"error": "there is no such behaviour; GET / lists them"})


class BadPath(ValueError):
    """The path names a behaviour, but not how."""


def of(path: str) -> Behaviour:
    """The behaviour a path names; one that answers 404 where there is none."""
    word, *rest = path.strip("/").split("/")
    maker = BEHAVIOURS.get(word)
    try:
        return maker(rest) if maker else _fixed(404, _NOT_FOUND)
    except BadPath as error:
        return _fixed(404, json_answer(404, {"error": str(error)}))


def _fixed(status: int, raw: bytes) -> Behaviour:
    outcome = (status, raw)
    return lambda request: outcome


def _number(rest: list[str], what: str, low: int, high: int, default: int | None = None) -> int:
    text = rest[0] if rest else ""
    if text.isdigit() and low <= int(text) <= high:
        return int(text)
    if default is not None:
        return default
    raise BadPath(f"the path needs {what}, {low} to {high}")


def _ok(rest: list[str]) -> Behaviour:
    return _fixed(200, _OK)


def _slow(rest: list[str]) -> Behaviour:
    seconds = _number(rest, "milliseconds", 0, 3_600_000) / 1000

    async def late() -> bytes:
        await asyncio.sleep(seconds)
        return _OK

    return lambda request: (200, late())


def _status(rest: list[str]) -> Behaviour:
    code = _number(rest, "a status code", 200, 599)
    return _fixed(code, json_answer(code, {"status": code}))


def _flaky(rest: list[str]) -> Behaviour:
    percent = _number(rest, "a percentage", 0, 100)
    broken = (500, json_answer(500, {"error": "flaky"}))
    good = (200, _OK)
    return lambda request: broken if random.random() * 100 < percent else good


def _drip(rest: list[str]) -> Behaviour:
    """One byte at a time, every `/drip/<ms>` (a second without it), for an hour's worth."""
    seconds = _number(rest, "milliseconds", 1, 60_000, default=1000) / 1000

    async def drip(request: Request) -> bytes | None:
        alive = await request.connection.stream(head(200, [(b"content-length", b"%d" % DRIP_BYTES)]))
        for _ in range(DRIP_BYTES):
            if not alive:
                return None
            await asyncio.sleep(seconds)
            alive = await request.connection.stream(b".")
        return b""

    return lambda request: (200, drip(request))


def _huge(rest: list[str]) -> Behaviour:
    """A gigabyte."""

    async def pour(request: Request) -> bytes | None:
        chunk = b"x" * 65536
        await request.connection.stream(head(200, [(b"content-length", b"%d" % HUGE_BYTES)]))
        for _ in range(HUGE_BYTES // len(chunk)):
            if not await request.connection.stream(chunk):
                return None
            await asyncio.sleep(0)
        return b""

    return lambda request: (200, pour(request))


@lru_cache(maxsize=1)
def bomb() -> bytes:
    """Half a gigabyte of nothing in half a megabyte of gzip, as one stream (libcurl reads no second one)."""
    block = bytes(1024**2)
    count = BOMB_BYTES // len(block)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    for _ in range(count):
        checksum = zlib.crc32(block, checksum)
    # After a full flush the same block packs into the same bytes.
    trailer = checksum.to_bytes(4, "little") + BOMB_BYTES.to_bytes(4, "little")
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff" + first * count + packer.flush() + trailer


def _gzipbomb(rest: list[str]) -> Behaviour:
    async def explode() -> bytes:
        body = await asyncio.to_thread(bomb)
        return answer(200, body, b"text/plain", (b"content-encoding", b"gzip"))

    return lambda request: (200, explode())


def _redirect(rest: list[str]) -> Behaviour:
    """To `/ok` with the same suffix, so that the journal shows who follows."""
    target = "/".join(["/ok", *rest])

    def away(request: Request) -> tuple[int, Outcome]:
        location = (request.prefix + target).encode("latin-1", "replace")
        return 302, answer(302, b"", b"text/plain", (b"location", location))

    return away


def _close(rest: list[str]) -> Behaviour:
    async def leave() -> None:
        return None

    return lambda request: (CLOSED, leave())


def _retry_after(rest: list[str]) -> Behaviour:
    seconds = _number(rest, "seconds", 0, 10_000_000)
    return _fixed(429, json_answer(429, {"error": "too many"}, (b"retry-after", b"%d" % seconds)))


def _body(rest: list[str]) -> Behaviour:
    return _fixed(200, answer(200, unquote(rest[0] if rest else "").encode()))


BEHAVIOURS: dict[str, Maker] = {
    "ok": _ok,
    "slow": _slow,
    "status": _status,
    "flaky": _flaky,
    "drip": _drip,
    "huge": _huge,
    "gzipbomb": _gzipbomb,
    "redirect": _redirect,
    "close": _close,
    "retry-after": _retry_after,
    "body": _body,
}
