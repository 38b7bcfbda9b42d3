"""A result's bytes as JSON that can be stored, for every adapter. Pure; the bytes themselves are never lost.

A result is paid for. What PostgreSQL cannot hold (NUL, half a character) is replaced visibly and said so; a byte order
mark is dropped. What can be understood in more than one way is not guessed at: BadAnswer carries the bytes.
"""

import codecs
import json
from typing import Any

from kernel.parsing import REPLACED, HostileJSON, mended_loads
from tasks.providers.base import BadAnswer, Result


def read(raw: bytes) -> Result:
    """The result, with a note where it was mended. Raises BadAnswer with the bytes."""
    body = raw.removeprefix(codecs.BOM_UTF8)
    try:
        value, replaced = mended_loads(body)
    except HostileJSON as error:
        raise BadAnswer(f"The result cannot be used: {_why(body, error)}.", raw=raw) from None
    if not replaced:
        return Result(value, raw)
    times = "1 place" if replaced == 1 else f"{replaced:,} places"
    note = f"In {times} of it NUL or half a character was replaced by {REPLACED}: neither can be stored."
    return Result(value, raw, note)


def of(value: Any) -> Result:
    """`read` for an adapter whose client has parsed already. Raises BadAnswer."""
    try:
        raw = json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not JSON"
        raise BadAnswer(f"The result cannot be used: {why}.") from None
    return read(raw)


def _why(body: bytes, error: HostileJSON) -> str:
    """Latin-1 reads anything, so it is told and not taken: only the provider knows what was meant."""
    if not body.strip():
        return "the answer is empty"
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as where:
        seen = body[max(0, where.start - 12) : where.start + 12].decode("latin-1")
        return f"{error}; read as Latin-1 it would say “{_printable(seen)}” there"
    return str(error)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else REPLACED for letter in text)
