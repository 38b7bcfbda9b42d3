"""Keys and secrets of an account, replaced: they come in and are never shown again.

The provider signs with one secret at a time, and its last webhooks of the old one may still be on their way: for the
overlap both are accepted.
"""

from datetime import datetime, timedelta

from kernel import clock
from kernel.secrets import UndecryptableSecret
from tasks import providers
from tasks.accounting import rules
from tasks.accounting.verbs import FREE, changing, record, write
from tasks.accounts import environment
from tasks.engine import wake
from tasks.errors import AccountRefused
from tasks.models import ProviderAccount

USUAL_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=7)


def rotate_key(name: str, api_key: str, *, actor: str, reason: str = "") -> ProviderAccount:
    """Call the provider with this key from now on; a hold ends, since it may have been the key's."""
    with changing(name) as row:
        _refuse_environment(row, "api_key")
        fresh = _fresh(row, "api_key", api_key)
        write(row, {"api_key": fresh, **FREE})
        record(row, "rotate_key", actor, reason)
        wake.after_commit(wake.START)
    return row


def rotate_secret(
    name: str, secret: str, *, overlap: timedelta = USUAL_OVERLAP, actor: str, reason: str = ""
) -> ProviderAccount:
    """Webhooks may be signed with this secret from now on, and with the one before it until the overlap is over.

    Raises InvalidSetting, and AccountRefused while an earlier secret still has its promised time.
    """
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        words = f"From 0 to {LONGEST_OVERLAP.total_seconds():,.0f} seconds ({LONGEST_OVERLAP.days} days)."
        raise rules.refuse("overlap_seconds", "out_of_range", words)
    with changing(name) as row:
        _refuse_environment(row, "webhook_secret")
        fresh, now = _fresh(row, "webhook_secret", secret), clock.now()
        _refuse_a_third(row, now)
        standing = _readable(row, "webhook_secret")
        kept = bool(standing and overlap)
        changes = {
            "webhook_secret": fresh,
            "previous_secret": standing if kept else "",
            "previous_secret_until": now + overlap if kept else None,
        }
        write(row, changes)
        record(row, "rotate_secret", actor, reason, overlap_seconds=int(overlap.total_seconds()) if kept else 0)
    return row


def end_previous_secret(name: str, *, actor: str, reason: str = "") -> bool:
    """The earlier secret is accepted no more, at once. False where there is none any more."""
    with changing(name) as row:
        if not has_previous(row, clock.now()):
            return False
        write(row, {"previous_secret": "", "previous_secret_until": None})
        record(row, "end_previous_secret", actor, reason)
    return True


def has_previous(row: ProviderAccount, now: datetime) -> bool:
    return row.previous_secret_until is not None and row.previous_secret_until > now


def _fresh(row: ProviderAccount, field: str, value: str) -> str:
    adapter = providers.adapter(row.adapter)
    if adapter is None:
        raise AccountRefused("adapter_gone", "The app that brought its adapter is gone. Install it again first.")
    fresh: str = rules.clean(adapter, {field: value})[field]
    if not fresh:
        raise rules.refuse(field, "required", "Give the new one: we do not make it, the provider does.")
    if fresh == _readable(row, field):
        raise rules.refuse(field, "not_new", "This one stands already. Copy the new one.")
    return fresh


def _refuse_a_third(row: ProviderAccount, now: datetime) -> None:
    if has_previous(row, now):
        raise AccountRefused(
            "previous_secret_lives",
            f"The secret before is accepted until {row.previous_secret_until:%Y-%m-%d %H:%M} UTC, and only one can be. "
            "End it, or wait until then.",
        )


def _refuse_environment(row: ProviderAccount, field: str) -> None:
    if variable := environment.variables_of(row).get(field):
        raise AccountRefused("account_of_environment", f"{variable} sets it. Change it there, and restart.")


def _readable(row: ProviderAccount, field: str) -> str:
    """What no master key opens stands for nothing: it is replaced, and not kept."""
    try:
        return str(getattr(row, field))
    except UndecryptableSecret:
        return ""
