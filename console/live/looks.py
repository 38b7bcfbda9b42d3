"""Finding out who is looking, for sockets that come and that stay: one thread, and a bounded queue before it."""

from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError

from console.live.readers import Reader

LOOK_SECONDS = 2.0
MAX_WAITING = 200

T = TypeVar("T")


class TooManyLooks(OperationalError):
    """So many sockets wait to be known that one more would wait too long."""


class Looks:
    """`rest` when nobody is left who would have to be looked at again."""

    def __init__(self) -> None:
        self._reader = Reader("live-who")
        self._waiting = 0

    async def find(self, look: Callable[..., T], *args: object) -> T:
        """The answer of `look`; OperationalError where it cannot be known now."""
        if self._waiting >= MAX_WAITING:
            raise TooManyLooks("too many sockets at once")
        self._waiting += 1
        try:
            return await self._reader.run(LOOK_SECONDS, look, *args)
        finally:
            self._waiting -= 1

    def rest(self) -> None:
        if not self._waiting:
            self._reader.rest()
