"""System checks of the inbox: a signing secret that cannot be used is told at start, not by refused webhooks."""

from typing import Any

from django.core.checks import CheckMessage, Warning, register

from tasks import providers
from tasks.providers.base import Provider
from webhooks.schemes import SCHEMES, secret_fault


def secret_faults() -> list[str]:
    """What is wrong with the providers' signing secrets, a sentence for each; never any part of one."""
    return [words for provider in providers.available().values() for words in _faults_of(provider)]


def _faults_of(provider: Provider) -> list[str]:
    if provider.scheme not in SCHEMES:
        return [f"The adapter of {provider.name} names the signature scheme {provider.scheme!r}, which does not exist."]
    try:
        secrets = list(provider.secrets())
    except Exception as error:  # noqa: BLE001 - an adapter may ask its provider for them
        return [f"The signing secrets of {provider.name} could not be had just now ({type(error).__name__})."]
    if not secrets:
        return [f"{provider.name} has no signing secret: its webhooks are answered 503 until one is set."]
    found = [(number, secret_fault(provider.scheme, secret)) for number, secret in enumerate(secrets, 1)]
    return [f"The signing secret {number} of {provider.name}: {fault}." for number, fault in found if fault]


@register()
def signing_secrets_can_be_used(**_kwargs: Any) -> list[CheckMessage]:
    hint = "Until it is corrected its webhooks are refused, and only the minute poll finishes its jobs."
    return [Warning(words, hint=hint, id="webhooks.W001") for words in secret_faults()]
