"""What a kind may be told: where its work goes, with which options, in which limits. For admin, API and command."""

from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.db import models, transaction

from kernel import audit
from kernel.live_hints import touched
from tasks import accounts, kinds, providers
from tasks.accounting import rules
from tasks.engine import wake
from tasks.errors import InvalidSetting
from tasks.kinds import Kind
from tasks.models import KindPolicy, ProviderAccount

ACCOUNT, OPTIONS = "provider", "options"  # judged with the account; the other fields by themselves
_NOT_TOLD = ("kind", "is_paused")  # the one is what it is, the other has verbs
log = structlog.get_logger(__name__)


def fields() -> tuple[str, ...]:
    """The names of what can be set."""
    return tuple(field.name for field in _columns())


def _columns() -> Iterable[models.Field]:
    columns = KindPolicy._meta.concrete_fields
    return [one for one in columns if one.editable and not one.primary_key and one.name not in _NOT_TOLD]


def change(name: str, values: Mapping[str, Any], *, actor: str, reason: str = "") -> KindPolicy:
    """Write the fields that are given, and no other. Raises UnknownKind, InvalidSetting."""
    kind = kinds.get(name)
    pk = kinds.policy_for(kind.name).pk
    with transaction.atomic():
        policy = KindPolicy.objects.select_for_update(no_key=True).get(pk=pk)
        cleaned = clean(kind, policy, values)
        changes = {field: value for field, value in cleaned.items() if getattr(policy, field) != value}
        if not changes:
            return policy
        for field, value in changes.items():
            setattr(policy, field, value)
        policy.save(update_fields=[*changes, "updated_at"])
        audit.record(actor, "update", "kind", [pk], reason, detail={"kind": kind.name, "fields": sorted(changes)})
        log.info("operator_verb", verb="kind.update", kind=kind.name, actor=actor, reason=reason)
        touched("stats")
    wake.after_commit(wake.START, wake.RUN_INTERNAL)
    return policy


def clean(kind: Kind, policy: KindPolicy, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored; writes nothing. Raises InvalidSetting with a row for each wrong field."""
    wrong: list[rules.Row] = []
    cleaned = {}
    for field, value in values.items():
        try:
            cleaned[field] = _judged(kind, policy, field, value, values)
        except InvalidSetting as error:
            wrong += error.errors
    if wrong:
        raise InvalidSetting(wrong)
    return cleaned


def _judged(kind: Kind, policy: KindPolicy, field: str, value: Any, values: Mapping[str, Any]) -> Any:
    if field == ACCOUNT:
        return _account(kind, str(value or "").strip())
    if field == OPTIONS:
        return _options(kind, values.get(ACCOUNT, policy.provider), policy, value)
    column: Any = KindPolicy._meta.get_field(field)
    try:
        return column.clean(value, None)
    except ValidationError as error:
        raise rules.refuse(field, str(error.error_list[0].code or "invalid"), " ".join(error.messages)) from None


def _account(kind: Kind, name: str) -> str:
    """Empty: the first account whose adapter was made for it."""
    if not name:
        return ""
    if not kind.is_external:
        words = f"{kind.title} runs in our own workers and needs no account. Leave this empty."
        raise rules.refuse(ACCOUNT, "not_taken", words)
    row = ProviderAccount.objects.filter(name=name).first()
    adapter = accounts.get(name)
    if adapter is None:
        there = ", ".join(fitting(kind)) or "none yet: make one first"
        raise rules.refuse(ACCOUNT, "unknown_account", f"There is no such account in use; there are {there}.")
    if row is not None and row.retired_at is not None:
        raise rules.refuse(ACCOUNT, "account_retired", "This account is retired. Choose another.")
    if not adapter.does(kind.name):
        title = rules.title(type(adapter))
        raise rules.refuse(ACCOUNT, "does_no_such_work", f"{title} does no {kind.title}. Choose another account.")
    return name


def _options(kind: Kind, account: str, policy: KindPolicy, value: Any) -> dict[str, Any]:
    if value in (None, {}):
        return {}
    found = accounts.get(account) if account else accounts.for_kind(KindPolicy(kind=policy.kind))
    if not kind.is_external or found is None:
        words = "Options are for the provider that does the work, and there is none. Leave them empty."
        raise rules.refuse(OPTIONS, "not_taken", words)
    try:
        return rules.options(type(found), OPTIONS, value)
    except ValueError as error:
        raise rules.refuse(OPTIONS, *error.args) from None


def fitting(kind: Kind) -> list[str]:
    """The accounts that could do this work, by name."""
    return [name for name, one in accounts.available().items() if one.does(kind.name)]


def missing_accounts() -> list[tuple[str, str, str]]:
    """(kind, account, what is wrong with it) of kinds whose new work cannot go where it is told to."""
    found = []
    rows = {row.name: row for row in ProviderAccount.objects.all()}
    for policy in KindPolicy.objects.exclude(provider="").order_by("kind"):
        row, kind = rows.get(policy.provider), kinds.find(policy.kind)
        adapter = providers.adapter(row.adapter) if row else None
        if kind is None or not kind.is_external:
            continue
        if row is None:
            words = "which there is not"
        elif row.retired_at is not None:
            words = "which is retired"
        elif adapter is None:
            words = f"whose adapter {row.adapter!r} no installed app brings"
        else:
            continue
        found.append((policy.kind, policy.provider, words))
    return found
