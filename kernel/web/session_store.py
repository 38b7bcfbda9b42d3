"""Sessions in the database, asked only for keys that can be one: a cookie may hold whatever somebody writes into it.

PostgreSQL takes no NUL and no half character in a text, and refuses such a question with an error.
"""

import re

from django.contrib.sessions.backends.db import SessionStore as DatabaseSessions

_KEY = re.compile(r"\A[a-z0-9]{8,40}\Z")  # Django makes 32 of these; the column holds 40


class SessionStore(DatabaseSessions):
    """Any other key is none: whoever sends it is not logged in."""

    def _validate_session_key(self, key: str | None) -> bool:
        return bool(key and _KEY.match(key))
