"""A body too long to stand in a JSON answer, streamed: nothing here holds it whole, and no connection waits for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import IO

from django.http import StreamingHttpResponse

from kernel.database.spools import PART_BYTES


def download(
    spool: IO[bytes], length: int, *, filename: str, content_type: str = "application/json"
) -> StreamingHttpResponse:
    """What `kernel.database.spools.spooled` returned, with its Content-Length; the file is closed with the answer."""
    # Asynchronous, because Django collects a synchronous stream whole before it sends it from an ASGI server.
    response = StreamingHttpResponse(_parts(spool), content_type=content_type)
    response.headers["Content-Length"] = str(length)
    response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    response._resource_closers.append(spool.close)  # type: ignore[attr-defined]
    return response


async def _parts(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(spool.read, PART_BYTES):
        yield part
