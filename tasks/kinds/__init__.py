"""The kinds of work: their input, their acceptance rules, where they run, and what may become a task of theirs."""

from tasks.kinds.registry import (
    EXTERNAL,
    INTERNAL,
    KINDS,
    Kind,
    exists,
    get,
    policy_for,
    provider_for,
    require_provider,
)

__all__ = [
    "EXTERNAL",
    "INTERNAL",
    "KINDS",
    "Kind",
    "exists",
    "get",
    "policy_for",
    "provider_for",
    "require_provider",
]
