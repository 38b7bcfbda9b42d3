"""The kinds of work: what their input looks like, where they run, and when a result is acceptable.

A kind is added by adding it to `KINDS` (docs/kinds.md). Where an external kind runs is the operator's choice
(`KindPolicy.provider`) and may change while jobs are in flight: a running job's provider stands on its own row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks import providers
from tasks.errors import InvalidInput, NoProvider, UnknownKind
from tasks.kinds import acceptance, reports, schemas
from tasks.models import KindPolicy, Task
from tasks.providers.base import Provider

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


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("map_search", "Map search", schemas.MAP_SEARCH, acceptance.map_search),
        Kind("email_generation", "E-mail generation", schemas.EMAIL_GENERATION, acceptance.email_generation),
        Kind("scoring", "Scoring", schemas.SCORING, acceptance.scoring),
        Kind("batch_report", "Batch report", schemas.BATCH_REPORT, acceptance.report, run=reports.batch_report),
    )
}
EXTERNAL = tuple(name for name, kind in KINDS.items() if kind.is_external)
INTERNAL = tuple(name for name, kind in KINDS.items() if not kind.is_external)


def get(name: str) -> Kind:
    """The kind of this name; hyphen and underscore are the same. Raises UnknownKind."""
    kind = KINDS.get(str(name).replace("-", "_"))
    if kind is None:
        raise UnknownKind(f"There is no kind {str(name)[:60]!r}; there are {', '.join(KINDS)}.")
    return kind


def exists(name: str) -> bool:
    return str(name).replace("-", "_") in KINDS


def policy_for(name: str) -> KindPolicy:
    """The operator's settings of a kind; made with the defaults when it is first asked for."""
    policy = KindPolicy.objects.filter(kind=name).first()
    if policy is None:
        policy, _ = KindPolicy.objects.get_or_create(kind=name)
    return policy


def provider_for(policy: KindPolicy) -> Provider | None:
    """Where new work of a kind goes: the policy's provider, else the installation's default one."""
    return providers.get(policy.provider or providers.default_name())


def require_provider(kind: Kind, policy: KindPolicy) -> None:
    """Refuse work that nobody could carry out. Raises NoProvider with what to do."""
    if not kind.is_external or provider_for(policy) is not None:
        return
    if policy.provider:
        raise NoProvider(
            f"{kind.title} is set to the provider {policy.provider!r}, which is not configured here. "
            f"Set its credentials, or choose another provider in the kind's policy."
        )
    raise NoProvider(
        f"No job provider is set up for {kind.title}. Configure one (see docs/adding-a-provider.md) and name it in the "
        f"kind's policy; nothing was stored."
    )
