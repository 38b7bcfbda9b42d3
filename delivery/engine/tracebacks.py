"""The traceback of a failure of our own code for the log, once for each way to fail in a process.

Frames and the sort of the error, never its words, which may hold a URL or a body.
"""

from __future__ import annotations

import traceback

TOLD_MOST = 200
_told: set[str] = set()


def way(error: Exception) -> str:
    """What tells one way to fail from another: the sort of error, and where it was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at is not None else ""
    return f"{type(error).__name__} {where}"


def told(error: Exception) -> dict[str, str]:
    """What a line of the log says of it: `error`, and the first time `frames`."""
    name, words = way(error), {"error": type(error).__name__}
    if name not in _told and len(_told) < TOLD_MOST:
        _told.add(name)
        words["frames"] = "".join(traceback.format_tb(error.__traceback__))
    return words
