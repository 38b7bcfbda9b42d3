"""A body too long to stand in a JSON answer, streamed: nothing here holds it whole, and no connection waits for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import IO

from django.http import StreamingHttpResponse

from tasks.reading import bodies


def download(name: str, pk: int, *, filename: str, content_type: str = "application/json") -> StreamingHttpResponse:
    """A task's `input` or `result`, or a `kept_answer`, with its Content-Length."""
    spool, length = bodies.spooled(name, pk)
    # Asynchronous, because Django collects a synchronous stream whole before it sends it from an ASGI server.
    response = StreamingHttpResponse(_parts(spool), content_type=content_type)
    response.headers["Content-Length"] = str(length)
    response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    response._resource_closers.append(spool.close)  # type: ignore[attr-defined]
    return response


async def _parts(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(spool.read, bodies.PART_BYTES):
        yield part
