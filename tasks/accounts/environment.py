"""Accounts that variables of the environment make: there from the start, and always as the variables say."""

import uuid
from typing import Any

from django.conf import settings
from django.db import transaction

from kernel import clock
from tasks.models import ProviderAccount


def declared() -> dict[str, dict[str, str]]:
    """Account name → its fields. The sandbox is one in demo and test only: production refuses its settings."""
    found: dict[str, dict[str, str]] = {}
    if settings.SANDBOX_PROVIDER_URL and not settings.PRODUCTION:
        found["sandbox"] = {
            "adapter": "sandbox",
            "base_url": settings.SANDBOX_PROVIDER_URL,
            "api_key": settings.SANDBOX_PROVIDER_KEY,
            "webhook_secret": settings.SANDBOX_WEBHOOK_SECRET,
        }
    return found


def as_declared(row: ProviderAccount | None, name: str, fields: dict[str, str]) -> ProviderAccount:
    """The row as the environment wants it; written only where it is not so already."""
    if row is not None and _is_so(row, fields):
        return row
    changes: dict[str, Any] = {**fields, "is_from_environment": True, "version": uuid.uuid4()}
    with transaction.atomic():
        made, is_new = ProviderAccount.objects.get_or_create(name=name, defaults=changes)
        if not is_new:
            ProviderAccount.objects.filter(pk=made.pk).update(**changes, retired_at=None, updated_at=clock.now())
            made.refresh_from_db()
    return made


def _is_so(row: ProviderAccount, fields: dict[str, str]) -> bool:
    """Also false where a secret of the row cannot be opened: it is written anew."""
    return row.is_from_environment and all(row.__dict__[name] == value for name, value in fields.items())
