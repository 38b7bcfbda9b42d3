"""Every step a task can take: the table, and one named verb per transition.

Thin for the moment; the verbs that API, admin and operations call are these, with these signatures.
"""

from collections.abc import Iterable
from datetime import datetime

from tasks.states import Cause


def cancel(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.API, now: datetime | None = None
) -> dict[int, str]:
    """Stop tasks. Answers for each id: `cancelled`, `cancelling` (the provider decides), or `refused` (final, or gone)."""
    raise NotImplementedError


def redrive(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.API, now: datetime | None = None
) -> set[int]:
    """Dead letters get new attempts; opens their batches again. Answers the ids that moved."""
    raise NotImplementedError


def discard(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.API, now: datetime | None = None
) -> set[int]:
    """Dead letters that nobody wants any more become cancelled. Answers the ids that moved."""
    raise NotImplementedError


def cancel_batch(batch_id: int, *, actor: str, reason: str, cause: Cause = Cause.API) -> dict[str, int]:
    """`cancel` for every open task of a batch, in parts. Answers how many of each word."""
    raise NotImplementedError
