"""Console sessions end by the database's clock; Django's own store asks the clock of whichever web host is asked.

With that, a host far ahead logs everybody out, and one that is behind keeps ended sessions alive. The settings name
this module as SESSION_ENGINE.
"""

from datetime import datetime
from typing import Any

from django.contrib.sessions.backends import db
from django.db.models.functions import Now

from kernel import clock


class SessionStore(db.SessionStore):
    """Django's store in the database, by the database's time."""

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
