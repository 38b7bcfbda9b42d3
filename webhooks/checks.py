"""System checks of the inbox: a signing secret that cannot be used is told at start, not by refused webhooks."""

from collections.abc import Callable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection

from tasks import accounts, providers
from tasks.models import ProviderAccount
from tasks.providers.base import Provider
from webhooks.schemes import SCHEMES, callers, secret_doubt, secret_fault


def secret_faults() -> dict[str, list[str]]:
    """Provider → what is wrong with its signing secrets, a sentence for each; never any part of one."""
    found = {name: _faults_of(provider) for name, provider in accounts.available().items()}
    return {name: faults for name, faults in found.items() if faults}


def _faults_of(provider: Provider) -> list[str]:
    if provider.scheme not in SCHEMES:
        return [f"The adapter of {provider.name} names the signature scheme {provider.scheme!r}, which does not exist."]
    if words := callers.fault(provider.callback_networks):
        return [f"{provider.name} cannot be called: {words}."]
    try:
        secrets = list(provider.secrets())
    except Exception as error:  # noqa: BLE001 - an adapter may ask its provider for them
        return [f"The signing secrets of {provider.name} could not be had just now ({type(error).__name__})."]
    if not secrets and not provider.needs_webhook_secret:
        return []
    if not secrets:
        return [f"{provider.name} has no signing secret: its webhooks are answered 503 until one is set."]
    return _told(provider, secrets, secret_fault)


def secret_doubts() -> dict[str, list[str]]:
    """Provider → what looks odd about secrets that can be used."""
    faulty = secret_faults()
    usable = {name: provider for name, provider in accounts.available().items() if name not in faulty}
    found = {name: _told(provider, provider.secrets(), secret_doubt) for name, provider in usable.items()}
    return {name: doubts for name, doubts in found.items() if doubts}


def _told(provider: Provider, secrets: Sequence[str], look: Callable[[str, str], str]) -> list[str]:
    found = [(number, look(provider.scheme, secret)) for number, secret in enumerate(secrets, 1)]
    return [f"Signing secret {number} of {provider.name}: {words}." for number, words in found if words]


@register()
def schemes_exist(**_kwargs: Any) -> list[CheckMessage]:
    """An adapter that names no scheme of ours could take no webhook in, of any of its accounts."""
    return [
        Error(
            f"The adapter {name} names the signature scheme {adapter.scheme!r}, which does not exist.",
            hint=f"Write one of {', '.join(SCHEMES)} as `scheme` in {adapter.__module__}.",
            id="webhooks.E001",
        )
        for name, adapter in providers.adapters().items()
        if adapter.scheme not in SCHEMES
    ]


@register(Tags.database)
def signing_secrets_can_be_used(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """Only where the database may be asked (`check --database default`, `migrate`), and has been migrated."""
    if not databases or ProviderAccount._meta.db_table not in connection.introspection.table_names():
        return []
    hint = "Until it is corrected its webhooks are refused, and only the minute poll finishes its jobs."
    found = [Warning(words, hint=hint, id="webhooks.W001") for told in secret_faults().values() for words in told]
    doubt = "Compare it with what the provider shows. If it is right, silence this check."
    found += [Warning(words, hint=doubt, id="webhooks.W002") for told in secret_doubts().values() for words in told]
    return list(found)
