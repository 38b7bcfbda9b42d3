"""What a kind's or an account's settings may say at most."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator

MAX_BATCH = 10_000  # tasks of one batch
MAX_ATTEMPTS = 100  # of a task before it is a dead letter; a redrive grants as many again
MAX_CONCURRENCY = 100_000  # tasks of a kind at once
MAX_RATE_PER_MINUTE = 1_000_000
MAX_MEMORY_MB = 1_000_000  # of one run in our own workers
MAX_TIMEOUT_SECONDS = 30 * 86_400  # of one attempt
SMALL_MOST = 2**15 - 1  # what a count in a smallint can be


def bounded(most: int) -> list[Any]:
    return [MinValueValidator(1), MaxValueValidator(most)]
