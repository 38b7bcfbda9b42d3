"""The kinds of work: their input, their acceptance rules, where they run, and what may become a task of theirs."""

from tasks.kinds import ours  # noqa: F401 - registers them
from tasks.kinds.chaining import link
from tasks.kinds.registry import (
    KINDS,
    Kind,
    KindTaken,
    discover,
    exists,
    external,
    find,
    get,
    internal,
    policy_for,
    provider_for,
    register,
    require_provider,
)

__all__ = [
    "KINDS",
    "Kind",
    "KindTaken",
    "discover",
    "exists",
    "external",
    "find",
    "get",
    "internal",
    "link",
    "policy_for",
    "provider_for",
    "register",
    "require_provider",
]
