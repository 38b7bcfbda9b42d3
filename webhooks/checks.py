"""System checks of the inbox: a signing secret that cannot be used is told at start, not by refused webhooks."""

from collections.abc import Callable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Warning, register

from tasks import providers
from tasks.providers.base import Provider
from webhooks.schemes import SCHEMES, secret_doubt, secret_fault


def secret_faults() -> dict[str, list[str]]:
    """Provider → what is wrong with its signing secrets, a sentence for each; never any part of one."""
    found = {name: _faults_of(provider) for name, provider in providers.available().items()}
    return {name: faults for name, faults in found.items() if faults}


def _faults_of(provider: Provider) -> list[str]:
    if provider.scheme not in SCHEMES:
        return [f"The adapter of {provider.name} names the signature scheme {provider.scheme!r}, which does not exist."]
    try:
        secrets = list(provider.secrets())
    except Exception as error:  # noqa: BLE001 - an adapter may ask its provider for them
        return [f"The signing secrets of {provider.name} could not be had just now ({type(error).__name__})."]
    if not secrets:
        return [f"{provider.name} has no signing secret: its webhooks are answered 503 until one is set."]
    return _told(provider, secrets, secret_fault)


def secret_doubts() -> dict[str, list[str]]:
    """Provider → what looks odd about secrets that can be used."""
    faulty = secret_faults()
    usable = {name: provider for name, provider in providers.available().items() if name not in faulty}
    found = {name: _told(provider, provider.secrets(), secret_doubt) for name, provider in usable.items()}
    return {name: doubts for name, doubts in found.items() if doubts}


def _told(provider: Provider, secrets: Sequence[str], look: Callable[[str, str], str]) -> list[str]:
    found = [(number, look(provider.scheme, secret)) for number, secret in enumerate(secrets, 1)]
    return [f"Signing secret {number} of {provider.name}: {words}." for number, words in found if words]


@register()
def signing_secrets_can_be_used(**_kwargs: Any) -> list[CheckMessage]:
    hint = "Until it is corrected its webhooks are refused, and only the minute poll finishes its jobs."
    found = [Warning(words, hint=hint, id="webhooks.W001") for told in secret_faults().values() for words in told]
    doubt = "Compare it with what the provider shows. If it is right, silence this check."
    found += [Warning(words, hint=doubt, id="webhooks.W002") for told in secret_doubts().values() for words in told]
    return list(found)
