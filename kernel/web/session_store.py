"""Console sessions: asked for by keys that can be one only, and ended by the database's clock. See SESSION_ENGINE.

A cookie may hold whatever somebody writes into it, and PostgreSQL refuses a question with a NUL or half a character in
its text. Django's own store asks the clock of whichever web host is asked: a host far ahead logs everybody out, and one
that is behind keeps ended sessions alive.
"""

import re
from datetime import datetime
from typing import Any

from django.contrib.sessions.backends import db
from django.db.models.functions import Now

from kernel import clock

_KEY = re.compile(r"\A[a-z0-9]{8,40}\Z")  # Django makes 32 of these; the column holds 40


class SessionStore(db.SessionStore):
    """Django's store in the database, by the database's time. Any other key is none: its sender is not logged in."""

    def _validate_session_key(self, key: str | None) -> bool:
        return bool(key and _KEY.match(key))

    def get_expiry_age(self, **kwargs: Any) -> int:
        return super().get_expiry_age(**{"modification": clock.now(), **kwargs})

    async def aget_expiry_age(self, **kwargs: Any) -> int:
        return await super().aget_expiry_age(**{"modification": clock.now(), **kwargs})

    def get_expiry_date(self, **kwargs: Any) -> datetime:
        return super().get_expiry_date(**{"modification": clock.now(), **kwargs})

    async def aget_expiry_date(self, **kwargs: Any) -> datetime:
        return await super().aget_expiry_date(**{"modification": clock.now(), **kwargs})

    def _get_session_from_db(self) -> Any:
        return self._or_none(self._living().first())

    async def _aget_session_from_db(self) -> Any:
        return self._or_none(await self._living().afirst())

    def _living(self) -> Any:
        return self.model.objects.filter(session_key=self.session_key, expire_date__gt=Now())

    def _or_none(self, row: Any) -> Any:
        if row is None:
            self._session_key = None  # as Django does: the next save makes a new one
        return row
