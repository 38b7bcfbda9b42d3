"""The check of an account: one harmless question with its real credentials, and what the answer means in words."""

from dataclasses import dataclass
from enum import StrEnum

import structlog

from kernel import clock
from tasks import accounts
from tasks.accounting.verbs import find, record
from tasks.models import ProviderAccount
from tasks.providers.base import Provider, ProviderDenied, ProviderError, ProviderRejected, ProviderThrottled

log = structlog.get_logger(__name__)


class Found(StrEnum):
    WELL = "well"  # it answers, and takes our credentials
    LACKING = "lacking"  # there is nothing to ask it with
    UNCLEAR = "unclear"  # it answers, but not our question
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Answer:
    found: Found
    words: str

    @property
    def is_well(self) -> bool:
        return self.found in (Found.WELL, Found.UNCLEAR)


def ask(provider: Provider) -> Answer:
    """Outside of any transaction. Never raises: an adapter that breaks is told of by its name."""
    if missing := provider.missing_credentials():
        return Answer(Found.LACKING, f"The account lacks {missing}, so there is nothing to ask it with.")
    try:
        provider.greet()
    except ProviderDenied as error:
        return Answer(Found.WRONG, f"It does not let us in: {error.detail} Correct its key, or ask what it lacks.")
    except (ProviderThrottled, ProviderRejected) as error:
        return Answer(Found.UNCLEAR, f"It answers, but not our question ({error.code}): {error.detail}")
    except ProviderError as error:
        words = f"No usable answer ({error.code}): {error.detail} Is it up, and is its address right?"
        return Answer(Found.WRONG, words)
    except Exception as error:
        log.exception("account_check_broke", account=provider.name, error=type(error).__name__)
        words = f"Its adapter {provider.adapter} failed ({type(error).__name__}) and must be mended; see the log."
        return Answer(Found.WRONG, words)
    return Answer(Found.WELL, "It answers, and takes our credentials.")


def check(name: str, *, actor: str, reason: str = "") -> Answer:
    """Ask, and keep what was found, unless the account was changed meanwhile."""
    row = find(name)
    provider = accounts.get(row.name)
    answer = (
        ask(provider) if provider is not None else Answer(Found.WRONG, f"It cannot be used: {accounts.why_gone(row)}")
    )
    same = ProviderAccount.objects.filter(pk=row.pk, version=row.version)
    if same.update(checked_at=clock.now(), check_words=answer.words[:300]):
        record(row, "check", actor, reason, found=answer.found.value)
    return answer
