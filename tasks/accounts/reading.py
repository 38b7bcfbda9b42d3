"""Accounts by name, each as the adapter that speaks for it."""

import uuid
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from kernel import clock
from kernel.secrets import Unreadable
from tasks import providers
from tasks.accounts import environment
from tasks.models import KindPolicy, ProviderAccount
from tasks.providers.base import Account, Provider

# The adapter of each account, so that its connections are used again: made anew whenever what made it has changed.
_made: dict[str, tuple[tuple[Any, ...], Provider]] = {}


def get(name: str) -> Provider | None:
    """The adapter of the account called `name`; None where there is no such account, or its adapter is gone."""
    row = ProviderAccount.objects.filter(name=name).first()
    if fields := environment.declared().get(name):
        row = environment.as_declared(row, name, fields)
    return provider_of(row) if row is not None else None


def known(name: str) -> Provider | None:
    """`get` for what an adapter is rather than whom it speaks for: without a look at the row where it was made here."""
    made = _made.get(name)
    return made[1] if made is not None else get(name)


def available() -> dict[str, Provider]:
    """Every account that takes new work or may do so again, by name: those of the environment first."""
    rows = {row.name: row for row in ProviderAccount.objects.filter(retired_at=None).order_by("pk")}
    wanted = environment.declared()
    for name, fields in wanted.items():
        rows[name] = environment.as_declared(rows.get(name), name, fields)
    ordered: Iterable[ProviderAccount] = sorted(rows.values(), key=lambda row: (row.name not in wanted, row.pk))
    return {row.name: provider for row in ordered if (provider := provider_of(row)) is not None}


def default_name(kind: str = "") -> str:
    """Where a kind's work goes that names no account: the first whose adapter was made for it; empty where none was."""
    return next((name for name, provider in available().items() if not kind or kind in provider.kinds), "")


def for_kind(policy: KindPolicy) -> Provider | None:
    """Where new work of a kind goes: the policy's account, else the first whose adapter was made for it."""
    if policy.provider:
        return get(policy.provider)
    return next((provider for provider in available().values() if policy.kind in provider.kinds), None)


def name_for(policy: KindPolicy) -> str:
    """The name of `for_kind`; also of an account that is named and not there. Empty where there is none."""
    found = for_kind(policy)
    return found.name if found is not None else policy.provider


def provider_of(row: ProviderAccount) -> Provider | None:
    """The adapter for this row; None where no installed app brings it, or the environment has dropped the account."""
    adapter = providers.adapter(row.adapter)
    if adapter is None or (row.is_from_environment and not environment.holds(row)):
        return None
    by = (row.version, row.previous_secret_until, settings.PROVIDER_ALLOWED_NETWORKS, adapter)
    made = _made.get(row.name)
    if made is None or made[0] != by or _has_expired(row):
        made = _made[row.name] = by, adapter(_account(row))
    return made[1]


def why_gone(row: ProviderAccount) -> str:
    """Why `provider_of` finds nothing, and what to do."""
    if providers.adapter(row.adapter) is None:
        return f"the app that brought the adapter {row.adapter!r} is gone. Its jobs wait until it is installed again."
    return "the variables that made it are gone. Set them again, or give it a key of its own (rotate its key)."


def _has_expired(row: ProviderAccount) -> bool:
    return row.previous_secret_until is not None and row.previous_secret_until < clock.now()


def _account(row: ProviderAccount) -> Account:
    """A secret that no master key opens is left out: the provider then denies us, and the alert on keys says why."""
    closed = {name for name, value in row.__dict__.items() if isinstance(value, Unreadable)}
    return Account(
        name=row.name,
        base_url=row.base_url,
        api_key="" if "api_key" in closed else row.api_key,
        secrets=() if closed & {"webhook_secret", "previous_secret"} else tuple(row.secrets(clock.now())),
        options=row.options,
        networks=tuple(settings.PROVIDER_ALLOWED_NETWORKS),
    )


def forget(name: str) -> None:
    """Make the adapter anew at the next use."""
    _made.pop(name, None)


def new_version() -> uuid.UUID:
    """What a changed row carries, so that every process notices."""
    return uuid.uuid4()
