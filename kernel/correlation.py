"""One id for one journey: from the API call through workers, the provider, its webhook and the outbound delivery.

The id lives in structlog's context variables, so every log line carries it. It must never carry meaning or secrets.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

HEADER = "x-correlation-id"
_ACCEPTABLE = re.compile(r"\A[A-Za-z0-9_\-]{8,64}\Z")


def new() -> str:
    return uuid.uuid4().hex


def current() -> str:
    """The id of the journey this code runs for; a new one where no journey has begun."""
    value = structlog.contextvars.get_contextvars().get("correlation_id")
    return value if isinstance(value, str) and value else new()


@contextmanager
def bind(correlation_id: str | None) -> Iterator[str]:
    """Run a block under `correlation_id` (a new id when none is given); log lines inside carry it."""
    value = correlation_id or new()
    with structlog.contextvars.bound_contextvars(correlation_id=value):
        yield value


def acceptable(value: str | None) -> str | None:
    """A caller's id if it is safe to log (8 to 64 letters, digits, `-`, `_`), else None."""
    return value if value and _ACCEPTABLE.match(value) else None
