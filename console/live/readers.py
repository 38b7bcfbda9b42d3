"""The threads in which live views read, each with one database connection that is not of the process's pool.

However many pages are open, live views take so many connections of a web process, and none that a request may need.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import close_old_connections, connection

from kernel.database import reads

T = TypeVar("T")


class Reader:
    """One thread; what it is given is done in turn."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, seconds: float, work: Callable[..., T], *args: object) -> T:
        """The answer of `work`; its reads may take so many seconds."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, _read, seconds, work, args)

    def rest(self) -> None:
        """Nobody needs it now: its connection is closed."""
        self._thread.submit(_close)


def _read(seconds: float, work: Callable[..., T], args: tuple[object, ...]) -> T:
    reads.use_own_connection()
    close_old_connections()
    with reads.at_most(seconds):
        return work(*args)


def _close() -> None:
    """In the thread: `connection` is each thread's own."""
    connection.close()
