"""System checks of the task side, each with a hint that says what to do."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tasks import kinds


@register()
def sandbox_is_complete(**_kwargs: Any) -> list[CheckMessage]:
    if not settings.SANDBOX_PROVIDER_URL:
        return []
    names = [name for name in ("SANDBOX_PROVIDER_KEY", "SANDBOX_WEBHOOK_SECRET") if not getattr(settings, name)]
    return [
        Error(
            f"SANDBOX_PROVIDER_URL is set, but {name} is not.",
            hint=f"Set {name} to the value that the sandbox process was started with.",
            id="tasks.E001",
        )
        for name in names
    ]


@register()
def providers_can_call_back(**_kwargs: Any) -> list[CheckMessage]:
    if settings.PUBLIC_BASE_URL or not settings.SANDBOX_PROVIDER_URL or settings.TESTING:
        return []
    return [
        Warning(
            "PUBLIC_BASE_URL is not set: job providers cannot call back, and only the minute poll finishes work.",
            hint="Set PUBLIC_BASE_URL to the address at which providers reach this site.",
            id="tasks.W001",
        )
    ]


@register()
def schemas_are_schemas(**_kwargs: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for kind in kinds.KINDS.values():
        try:
            Draft202012Validator.check_schema(kind.schema)
        except SchemaError as error:
            hint = "Correct it in tasks/kinds/schemas.py."
            found.append(
                Error(f"The input schema of {kind.name} is broken: {error.message}", hint=hint, id="tasks.E002")
            )
    return found
