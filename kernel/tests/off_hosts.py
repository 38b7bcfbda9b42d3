"""A host whose clock is off, for a test: what this process takes for now is shifted, the monotonic clock is not."""

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kernel import clock


@contextlib.contextmanager
def host_off_by(shift: timedelta) -> Iterator[None]:
    """`time.time`, Django's `timezone.now` and what the clock reads of the host are this much ahead."""
    true_time = time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + shift

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "datetime", Shifted)
        patch.setattr("django.utils.timezone.now", lambda: datetime.now(UTC) + shift)
        patch.setattr(time, "time", lambda: true_time() + shift.total_seconds())
        clock.measure()
        yield
    clock.measure()
