"""The kinds of work: what their input looks like, where they run, and when a result is acceptable.

Any installed app may bring kinds in its `kinds.py` (docs/kinds.md). Where an external kind runs is the operator's
choice (`KindPolicy.provider`) and may change while jobs are in flight: a running job's account stands on its own row.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks import accounts
from tasks.errors import InvalidInput, NoProvider, UnknownKind
from tasks.kinds import schemas
from tasks.models import KindPolicy, Task
from tasks.providers import discovery
from tasks.providers.base import Provider

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")

Rule = Callable[[Mapping[str, Any], Any], str]


@dataclass(frozen=True)
class Kind:
    """`run` is set for an internal kind: it gets the task, works in our own worker, and returns the result."""

    name: str
    title: str
    schema: Mapping[str, Any]
    accept: Rule
    run: Callable[[Task], dict[str, Any]] | None = None

    @property
    def is_external(self) -> bool:
        return self.run is None

    def checked(self, given: Any) -> dict[str, Any]:
        """The input as it is stored. Raises InvalidInput with a row for each wrong field."""
        found = schemas.problems(self.schema, given)
        if found:
            raise InvalidInput(f"{found[0]['field']}: {found[0]['detail']}", errors=found)
        return schemas.normalised(self.schema, given)

    def from_texts(self, row: Mapping[str, str | None]) -> dict[str, Any]:
        """An input made from a CSV row, unchecked."""
        return schemas.from_texts(self.schema, row)


KINDS: dict[str, Kind] = {}  # by name, in the order in which they were brought


class KindTaken(Exception):
    """Two kinds of one name: whose tasks would it be?"""


def register(kind: Kind) -> Kind:
    """Make a kind known. Raises KindTaken where another one has its name, ValueError for a name that fits no URL."""
    if not _NAME.fullmatch(kind.name):
        raise ValueError(f"The kind {kind.name!r} needs a name of small letters, digits and underscores.")
    other = KINDS.setdefault(kind.name, kind)
    if other is not kind:
        raise KindTaken(f"There are two kinds called {kind.name!r}. Rename one.")
    return kind


def discover() -> None:
    """Import `kinds.py` of every installed app, as the admin does with `admin.py`."""
    discovery.load("kinds")


def external() -> tuple[str, ...]:
    """Names of the kinds that run at a provider."""
    return tuple(name for name, kind in KINDS.items() if kind.is_external)


def internal() -> tuple[str, ...]:
    """Names of the kinds that run in our own workers."""
    return tuple(name for name, kind in KINDS.items() if not kind.is_external)


def get(name: str) -> Kind:
    """The kind of this name; hyphen and underscore are the same. Raises UnknownKind."""
    kind = find(name)
    if kind is None:
        raise UnknownKind(f"There is no kind {str(name)[:60]!r}; there are {', '.join(KINDS)}.")
    return kind


def find(name: str) -> Kind | None:
    """The kind of this name; None where there is none, or the app that brought it is gone."""
    return KINDS.get(str(name).replace("-", "_"))


def exists(name: str) -> bool:
    return find(name) is not None


def policy_for(name: str) -> KindPolicy:
    """The operator's settings of a kind; made with the defaults when it is first asked for."""
    policy = KindPolicy.objects.filter(kind=name).first()
    if policy is None:
        policy, _ = KindPolicy.objects.get_or_create(kind=name)
    return policy


def provider_for(policy: KindPolicy) -> Provider | None:
    """Where new work of a kind goes: the policy's provider, else the installation's default one."""
    return accounts.for_kind(policy)


def require_provider(kind: Kind, policy: KindPolicy) -> None:
    """Refuse work that nobody could carry out. Raises NoProvider with what to do."""
    if not kind.is_external:
        return
    provider = provider_for(policy)
    if provider is not None and provider.does(kind.name):
        return
    if provider is not None:
        raise NoProvider(
            f"{kind.title} is set to the account {policy.provider!r}, and {provider.title or provider.adapter} does no "
            f"such work. Choose another account in the kind's policy; nothing was stored."
        )
    if policy.provider:
        raise NoProvider(
            f"{kind.title} is set to the account {policy.provider!r}, which there is not. "
            f"Make it, or choose another account in the kind's policy; nothing was stored."
        )
    raise NoProvider(
        f"No provider account can do {kind.title}. Make one and name it in the kind's policy (see "
        f"docs/adding-a-provider.md); nothing was stored."
    )
