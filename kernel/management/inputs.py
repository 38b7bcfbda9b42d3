"""What a command reads from standard input or a file: as much as the API would take, and not a byte more."""

from typing import BinaryIO

from django.core.management.base import CommandError


def bounded(stream: BinaryIO, most: int, what: str, returncode: int = 1) -> bytes:
    """All of the stream, where that is `most` bytes or fewer. Raises CommandError that says what to do instead."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise CommandError(f"{what} has more than {most:,} bytes, which is the most. Split it.", returncode=returncode)
    return content
