"""`apply`: a provider's word about a job becomes a step of its task, or is ignored with a reason word."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tasks.providers.base import ProviderUpdate
from tasks.states import Cause


@dataclass(frozen=True, slots=True)
class Applied:
    """What an update did. `status`: applied, accepted (done upstream, result is being fetched; or parked), ignored."""

    status: str
    reason: str | None = None
    task_id: int | None = None
    job_id: str = ""


def apply(update: ProviderUpdate, *, provider: str, cause: Cause, now: datetime | None = None) -> Applied:
    """`apply_many` for one update."""
    return apply_many([update], provider=provider, cause=cause, now=now)[0]


def apply_many(
    updates: Sequence[ProviderUpdate], *, provider: str, cause: Cause, now: datetime | None = None
) -> list[Applied]:
    """Apply all updates of one payload, set by set, each set in one transaction. Answers in the order given.

    Must not run inside a caller's transaction that has locked tasks or batches.
    """
    raise NotImplementedError
