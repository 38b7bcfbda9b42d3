"""Named places at which a test may end the process: what is left behind there is what a crash leaves.

Nothing listens in demo and production, whatever is set.
"""

from collections.abc import Callable

from django.conf import settings

listener: Callable[[str], None] | None = None  # set by a test's own worker process


def reached(point: str) -> None:
    """The code has come to this point."""
    if listener is not None and settings.TESTING:
        listener(point)
