"""Public inbound URLs: which provider's callback an address takes.

`/webhooks/<kind>/<provider>/`, `/webhooks/<kind>/` (the kind's provider of today), `/webhooks/<provider>/`. Hyphen and
underscore are the same. The source decides the signature scheme; the kind is read from the job's row, never from here.
"""

from dataclasses import dataclass

from tasks import kinds, providers
from tasks.models import KindPolicy
from tasks.providers.base import Provider


@dataclass(frozen=True)
class Source:
    """One inbound address; `name` is its canonical spelling, under which its events are stored and deduplicated."""

    name: str
    provider: Provider


def resolve(first: str, second: str = "") -> Source | None:
    """The source of `/webhooks/<first>/[<second>/]`, or None. Reads the kind's policy where no provider is named."""
    first, second = _normal(first), _normal(second)
    if first not in kinds.KINDS:
        provider = providers.get(first)
        return Source(first, provider) if provider and not second else None
    provider = providers.get(second or _default_provider(first))
    return Source(f"{first}/{provider.name}", provider) if provider else None


def by_name(name: str) -> Source | None:
    """The source under which an event was stored; None if its provider has left the system."""
    return resolve(*name.split("/", 1))


def _default_provider(kind: str) -> str:
    named = KindPolicy.objects.filter(kind=kind).values_list("provider", flat=True).first()
    return named or providers.default_name()


def _normal(part: str) -> str:
    return part.lower().replace("-", "_")
