"""Accounts made, changed, paused, resumed and retired."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Q

from kernel import audit, clock
from kernel.live_hints import touched
from tasks import providers
from tasks.accounting import rules
from tasks.accounts import environment
from tasks.accounts.reading import available, new_version, why_gone
from tasks.engine import wake
from tasks.errors import AccountRefused, NotFound
from tasks.models import KindPolicy, ProviderAccount

FREE = {
    "failure_count": 0,
    "failing_since": None,
    "held_since": None,
    "held_until": None,
    "hold_reason": "",
    "hold_text": "",
}
log = structlog.get_logger(__name__)


def find(name: str) -> ProviderAccount:
    """Raises NotFound, with the accounts that there are."""
    available()  # those of the environment are rows only once somebody has asked for them
    row = ProviderAccount.objects.filter(name=str(name).replace("-", "_")).first()
    if row is None:
        names = list(ProviderAccount.objects.order_by("name").values_list("name", flat=True)[:50])
        raise NotFound(f"There is no account {str(name)[:60]!r}; there are {', '.join(names) or 'none yet'}.")
    return row


def create(name: str, adapter: str, values: Mapping[str, Any], *, actor: str, reason: str = "") -> ProviderAccount:
    """A new account. Raises InvalidSetting."""
    by = rules.known_adapter(adapter)
    given = {"base_url": "", **values}  # judged even where nothing was said of it
    cleaned = rules.clean(by, given)
    name = rules.clean_name(name)
    if by.needs_api_key and not cleaned.get("api_key"):
        raise rules.refuse("api_key", "required", f"{rules.title(by)} knows its callers by a key. Give yours.")
    try:
        with transaction.atomic():
            row = ProviderAccount.objects.create(name=name, adapter=adapter, **cleaned)
            record(row, "create", actor, reason, fields=sorted(values))
            wake.after_commit(wake.START)
    except IntegrityError:
        words = "There is an account of this name, perhaps a retired one. Choose another name."
        raise rules.refuse("name", "taken", words) from None
    return row


def update(name: str, values: Mapping[str, Any], *, actor: str, reason: str = "") -> ProviderAccount:
    """Write the fields that are given, and no other. Raises InvalidSetting, AccountRefused."""
    with changing(name) as row:
        adapter = providers.adapter(row.adapter)
        if adapter is None:
            raise AccountRefused("adapter_gone", f"It cannot be changed: {why_gone(row)}")
        _refuse_those_of_the_environment(row, values)
        cleaned = rules.clean(adapter, values)
        changes = {field: value for field, value in cleaned.items() if row.__dict__[field] != value}
        if "base_url" in changes and adapter.needs_api_key and not cleaned.get("api_key"):
            raise rules.refuse("api_key", "required", rules.KEY_AGAIN)
        if changes:
            write(row, changes)
            record(row, "update", actor, reason, fields=sorted(changes))
            wake.after_commit(wake.START)
    return row


def _refuse_those_of_the_environment(row: ProviderAccount, values: Mapping[str, Any]) -> None:
    variables = environment.variables_of(row)
    for field in values:
        if field in variables:
            words = f"{variables[field]} sets this. Change it there, and restart."
            raise rules.refuse(field, "of_environment", words)


def pause(name: str, *, actor: str, reason: str = "") -> bool:
    """Nothing new starts there; running jobs go on. False where it was paused already."""
    return _switch(name, Q(is_paused=False, retired_at=None), "pause", actor, reason, is_paused=True)


def resume(name: str, *, actor: str, reason: str = "") -> bool:
    """Waiting tasks start at once; a hold ends too. False where nothing held it. Raises AccountRefused."""
    held = Q(is_paused=True) | Q(held_until__gt=clock.now())
    with transaction.atomic():
        if ProviderAccount.objects.filter(name=name, retired_at__isnull=False).exists():
            raise AccountRefused("account_retired", "It is retired, and stays so. Make another account.")
        is_free = _switch(name, held, "resume", actor, reason, is_paused=False, **FREE)
        if is_free:
            wake.after_commit(wake.START)
    return is_free


def _switch(name: str, condition: Q, verb: str, actor: str, reason: str, **changes: object) -> bool:
    with transaction.atomic():
        account = ProviderAccount.objects.select_for_update(no_key=True).filter(condition, name=name).first()
        if account is None:
            return False
        ProviderAccount.objects.filter(pk=account.pk).update(**changes, updated_at=clock.now())
        record(account, verb, actor, reason)
    return True


def retire(name: str, *, actor: str, reason: str = "") -> bool:
    """Nothing new goes there, for good; jobs in flight finish. False where it was retired already.

    Raises AccountRefused where a kind is set to it, or variables would bring it back.
    """
    with changing(name) as row:
        if row.retired_at is not None:
            return False
        if words := why_not_retire(row):
            raise AccountRefused("account_in_use", words)
        write(row, {"retired_at": clock.now()})
        record(row, "retire", actor, reason)
    return True


def why_not_retire(row: ProviderAccount) -> str:
    """What keeps it, in words; empty where nothing does."""
    if environment.holds(row):
        variable = next(iter(environment.variables_of(row).values()))
        return f"{variable} makes this account: take the variable away and restart, then retire it; or pause it."
    kinds = list(KindPolicy.objects.filter(provider=row.name).order_by("kind").values_list("kind", flat=True))
    if kinds:
        return f"New work of {', '.join(kinds)} goes there. Choose another account in the kind's policy first."
    return ""


@contextmanager
def changing(name: str) -> Iterator[ProviderAccount]:
    """The row, locked until the block ends. Raises NotFound."""
    found = find(name)
    with transaction.atomic():
        yield ProviderAccount.objects.select_for_update(no_key=True).get(pk=found.pk)


def write(row: ProviderAccount, changes: Mapping[str, Any]) -> None:
    """These columns, and a new version, so that every process notices. An account whose variables are gone becomes a
    person's."""
    if not environment.holds(row):
        row.is_from_environment = False
    for field, value in changes.items():
        setattr(row, field, value)
    row.version = new_version()
    row.save(update_fields=[*changes, "version", "is_from_environment", "updated_at"])


def record(row: ProviderAccount, verb: str, actor: str, reason: str, **detail: Any) -> None:
    """The audit's line and the log's; names of fields, never what stands in them."""
    audit.record(actor, verb, "provider_account", [row.pk], reason, detail={"name": row.name, **detail})
    log.info("operator_verb", verb=f"provider_account.{verb}", account=row.name, actor=actor, reason=reason)
    touched("stats")
