"""Which job providers this installation can use, by name. An adapter is a folder here; see `base` for the port."""

from django.conf import settings

from tasks.providers.base import Provider
from tasks.providers.sandbox import SandboxProvider


def get(name: str) -> Provider | None:
    """The adapter called `name`, or None where it is unknown or not configured."""
    return available().get(name)


def available() -> dict[str, Provider]:
    """Every provider that is configured. The sandbox is one in demo and test only: production refuses its settings."""
    found: dict[str, Provider] = {}
    if settings.SANDBOX_PROVIDER_URL and not settings.PRODUCTION:
        found[SandboxProvider.name] = SandboxProvider.from_settings()
    return found


def default_name() -> str:
    """Where a kind's work goes that names no provider; empty where there is none."""
    return next(iter(available()), "")
