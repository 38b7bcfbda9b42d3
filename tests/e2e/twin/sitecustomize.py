"""In a twin under another clock `time.sleep` waits by `select`: libfaketime fails an absolute sleep of the true clock.

With its monotonic clock left alone, its `clock_nanosleep` answers EINVAL, and beat, which sleeps, would end at once.
"""

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep
