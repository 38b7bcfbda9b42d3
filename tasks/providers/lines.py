"""A long body's lines, one at a time and never longer than a bound: how batches hand out their results. Pure."""

from collections.abc import Iterable, Iterator

MAX_LINE_BYTES = 8 * 1024 * 1024  # a result that is longer is one item's trouble, and not its neighbours'


def of(pieces: Iterable[bytes], most: int = MAX_LINE_BYTES) -> Iterator[tuple[bytes, bool]]:
    """Each line that is not empty, and whether it is whole: of a longer one than `most` bytes, its beginning."""
    held, is_whole = bytearray(), True
    for piece in pieces:
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            is_whole = _take(held, piece[start:end], most) and is_whole
            if held.strip():
                yield bytes(held), is_whole
            held.clear()
            start, is_whole = end + 1, True
        is_whole = _take(held, piece[start:], most) and is_whole
    if held.strip():
        yield bytes(held), is_whole


def _take(held: bytearray, part: bytes, most: int) -> bool:
    room = most - len(held)
    held += part[:room]
    return len(part) <= room
