"""The mutation: check the request, write the durable rows, answer. Nothing here waits for a broker or a provider."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tasks.models import Batch, Task
from tasks.states import Cause

MAX_BATCH = 10_000


def submit(
    kind: str,
    input: Mapping[str, Any],
    *,
    caller: str,
    subscriber: str = "",
    run_at: datetime | None = None,
    reference: str = "",
    cause: Cause = Cause.API,
    actor: str = "",
    correlation_id: str | None = None,
) -> Task:
    """Make a task. Raises UnknownKind, InvalidInput, NoProvider. May run inside the caller's transaction."""
    raise NotImplementedError


def submit_batch(
    kind: str,
    items: Sequence[Mapping[str, Any]],
    *,
    caller: str,
    subscriber: str = "",
    reference: str = "",
    cause: Cause = Cause.API,
    actor: str = "",
    correlation_id: str | None = None,
) -> Batch:
    """Make a batch of `{input, reference?}` items, all or none; errors' fields start with `tasks.<index>.`.

    Raises UnknownKind, BadBatch, InvalidInput, NoProvider.
    """
    raise NotImplementedError
