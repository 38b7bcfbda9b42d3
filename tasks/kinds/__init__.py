"""The kinds of work: their input, the rules for their results, where they run, and what may become a task of theirs."""

from tasks.kinds import ours  # noqa: F401 - registers them
from tasks.kinds.chaining import link
from tasks.kinds.registry import (
    KINDS,
    RESULT_BYTES,
    Broken,
    Kind,
    KindTaken,
    ResultRule,
    discover,
    exists,
    external,
    find,
    get,
    internal,
    policy_for,
    provider_for,
    register,
    require_account,
    require_provider,
)

__all__ = [
    "KINDS",
    "RESULT_BYTES",
    "Broken",
    "Kind",
    "KindTaken",
    "ResultRule",
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
    "require_account",
    "require_provider",
]
