"""Accounts that variables of the environment make: there from the start, and always as the variables say.

Which variables: an adapter's `environment`. A row that a person made under the same name is left as it is.
"""

import uuid
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import transaction

from kernel import clock
from tasks import providers
from tasks.models import ProviderAccount
from tasks.providers.base import Provider

DEMO_ONLY = frozenset({"sandbox"})  # production refuses their variables


def declared() -> dict[str, dict[str, str]]:
    """Account name → its fields."""
    return {name: {"adapter": name, **fields} for name, fields in _read() if fields[next(iter(fields))]}


def _read() -> Iterator[tuple[str, dict[str, str]]]:
    for name, adapter in providers.adapters().items():
        if adapter.environment and not (name in DEMO_ONLY and settings.PRODUCTION):
            yield name, {field: value_of(variable) for field, variable in adapter.environment.items()}


def value_of(variable: str) -> str:
    """A variable that the settings know by its name, or any other one that an adapter of an app brings along."""
    value = getattr(settings, variable, None)
    return str(settings.READ_PROVIDER_VARIABLE(variable) if value is None else value).strip()


def holds(row: ProviderAccount) -> bool:
    """Whether variables make this account at present: then its fields are changed there."""
    return row.is_from_environment and row.name in declared()


def variables_of(row: ProviderAccount) -> dict[str, str]:
    """Field → the variable that sets it, of an account that variables make."""
    adapter = providers.adapter(row.adapter)
    return dict(adapter.environment) if adapter is not None and holds(row) else {}


def half_set() -> Iterator[tuple[str, str]]:
    """(variable, what it lacks) of accounts that cannot work as they are declared."""
    for name, fields in _read():
        adapter = providers.adapters()[name]
        missing = [
            adapter.environment[field] for field, value in fields.items() if not value and _needs(adapter, field)
        ]
        given = [adapter.environment[field] for field, value in fields.items() if value]
        if given and missing:
            yield given[0], " and ".join(missing)


def _needs(adapter: type[Provider], field: str) -> bool:
    """A secret that is missing is another matter: the account works by the poll, and its page says what to do."""
    if field == "base_url":
        return not adapter.default_base_url
    return adapter.needs_api_key if field == "api_key" else adapter.adapter in DEMO_ONLY


def as_declared(row: ProviderAccount | None, name: str, fields: dict[str, str]) -> ProviderAccount:
    """The row as the environment wants it; written only where it is not so already."""
    if row is not None and (not row.is_from_environment or _is_so(row, fields)):
        return row
    changes: dict[str, Any] = {**fields, "is_from_environment": True, "version": uuid.uuid4()}
    with transaction.atomic():
        made, is_new = ProviderAccount.objects.get_or_create(name=name, defaults=changes)
        if not is_new and made.is_from_environment:
            ProviderAccount.objects.filter(pk=made.pk).update(**changes, retired_at=None, updated_at=clock.now())
            made.refresh_from_db()
    return made


def _is_so(row: ProviderAccount, fields: dict[str, str]) -> bool:
    """Also false where a secret of the row cannot be opened: it is written anew."""
    return all(row.__dict__[name] == value for name, value in fields.items())
