"""What an operator reads of accounts: the state of one, why nothing starts there, where its provider calls back."""

from datetime import datetime

from django.conf import settings

from tasks import accounts
from tasks.models import ProviderAccount
from tasks.states import AccountState

COLOURS = {
    "in use": "success",
    "paused": "warning",
    "held": "danger",
    "retired": "default",
    "cannot be used": "danger",
}


def state(row: ProviderAccount, now: datetime) -> str:
    """The gravest first."""
    if row.retired_at is not None:
        return AccountState.RETIRED
    if accounts.provider_of(row) is None:
        return AccountState.GONE
    if row.is_paused:
        return AccountState.PAUSED
    return AccountState.HELD if row.is_held(now) else AccountState.ACTIVE


def why_held(row: ProviderAccount, now: datetime) -> str:
    """Why nothing starts at this account at present; "" when it does."""
    match state(row, now):
        case AccountState.RETIRED:
            return f"The account {row.name} is retired: nothing new starts there. Choose another in the kind's policy."
        case AccountState.GONE:
            return f"The account {row.name} cannot be used: {accounts.why_gone(row)}"
        case AccountState.PAUSED:
            return f"The account {row.name} is paused: nothing new starts there. Resume it on the account's page."
        case AccountState.HELD:
            why = row.hold_text or row.hold_reason.replace("_", " ")
            until = f"{row.held_until:%H:%M:%S} UTC"
            return f"The account {row.name} is held until {until}, then goes on by itself: {why}"
    return ""


def of_job(name: str) -> str:
    """What is to be said of the account of a running job; "" where all is well with it."""
    row = ProviderAccount.objects.filter(name=name).first()
    if row is None:
        return f"There is no account {name} any more: the job waits, and is given up at its deadline."
    if accounts.provider_of(row) is None:
        return f"The account {name} cannot be used: {accounts.why_gone(row)}"
    return ""


def callback_url(name: str) -> str:
    """Where the provider calls us, for the account as a whole; empty where nobody can reach us."""
    address = f"/webhooks/{name.replace('_', '-')}/"
    return f"{settings.PUBLIC_BASE_URL}{address}" if settings.PUBLIC_BASE_URL else ""
