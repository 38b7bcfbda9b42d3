"""System checks of the task side, each with a hint that says what to do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tasks import kinds
from tasks.accounting import policies
from tasks.accounts import environment
from tasks.kinds import chaining, following
from tasks.models import ProviderAccount


@register()
def accounts_of_the_environment_are_complete(**_kwargs: Any) -> list[CheckMessage]:
    return [
        Error(
            f"{given} is set, but {missing} is not.",
            hint=f"Set {missing} too, or take {given} away: half an account works nowhere.",
            id="tasks.E001",
        )
        for given, missing in environment.half_set()
    ]


@register()
def providers_can_call_back(**_kwargs: Any) -> list[CheckMessage]:
    if settings.PUBLIC_BASE_URL or settings.TESTING or not environment.declared():
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
    return [
        Error(
            f"The input schema of the kind {kind.name} is broken: {fault}",
            hint="Correct it where the kind is registered: the kinds.py of its app.",
            id="tasks.E002",
        )
        for kind in kinds.KINDS.values()
        for fault in _faults(kind.schema)
    ]


def _faults(schema: Mapping[str, Any]) -> Iterator[str]:
    """What Roundtrip cannot work with: forms and CSV columns are made from the fields, and the whole stands in the
    OpenAPI document, where a reference would lead elsewhere."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield error.message
        return
    if schema.get("type") != "object":
        yield 'it must say "type": "object".'
    if not isinstance(schema.get("properties"), Mapping):
        yield 'it must name its fields in "properties".'
    if "'$ref'" in repr(schema):
        yield "it holds a $ref. Write out what it refers to."


@register()
def follow_ups_end(**_kwargs: Any) -> list[CheckMessage]:
    """Kinds that follow themselves would go on, and be paid for, without end; one that is not there cannot follow."""
    found: list[CheckMessage] = [
        Error(
            f"The follow-ups of the kind {name} lead back to it.",
            hint="Take one of its on_succeeded or on_completed out.",
            id="tasks.E003",
        )
        for name in following.circles()
    ]
    for kind in kinds.KINDS.values():
        found += [
            Error(
                f"{kind.name} is to be followed by {target}, and nothing links the two.",
                hint="Put @link (tasks.kinds) before the function that links them, in the app that brings it.",
                id="tasks.E004",
            )
            for target in (*kind.on_succeeded, *kind.on_completed)
            if (kind.name, target) not in chaining.LINKS and target not in chaining.OF_BATCHES
        ]
    return found


@register(Tags.database)
def kinds_have_their_accounts(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """Only where the database may be asked (`check --database default`, `migrate`), and has been migrated."""
    if not databases or ProviderAccount._meta.db_table not in connection.introspection.table_names():
        return []
    return [
        Warning(
            f"The kind {kind} is set to the account {account!r}, {words}: its tasks wait.",
            hint=f"`manage.py kinds set {kind} --account NAME`, or choose it in the kind's policy.",
            id="tasks.W002",
        )
        for kind, account, words in policies.missing_accounts()
    ]


@register(Tags.database)
def own_accounts_stand_before_variables(databases: Sequence[str] | None = None, **_kwargs: Any) -> list[CheckMessage]:
    """A row that a person made is never overwritten by a variable; but whoever set the variable should know."""
    if not databases or ProviderAccount._meta.db_table not in connection.introspection.table_names():
        return []
    rows = ProviderAccount.objects.filter(name__in=list(environment.declared()), is_from_environment=False)
    return [
        Warning(
            f"Variables of the environment declare the account {name}, but one of this name was made by hand.",
            hint="The one made by hand is used. Take the variables away, or retire the account.",
            id="tasks.W003",
        )
        for name in rows.values_list("name", flat=True)
    ]
