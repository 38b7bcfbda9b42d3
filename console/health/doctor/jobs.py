"""Asks each account at a job provider one harmless question with its real credentials: are we let in?"""

from collections.abc import Iterator

from console.health.checks import Check
from console.health.doctor.findings import Finding, NotTried
from tasks import accounting, accounts
from tasks.accounting.asking import Found
from tasks.providers.base import Provider


def ask_providers() -> Iterator[Finding]:
    found = accounts.available()
    if not found:
        yield NotTried("providers", "there is no account at a job provider: tasks of external kinds need one")
    for name, provider in found.items():
        yield from _ask(name, provider)


def _ask(name: str, provider: Provider) -> Iterator[Finding]:
    what = f"provider_{name}"
    answer = accounting.ask(provider)
    match answer.found:
        case Found.LACKING:
            yield NotTried(what, answer.words)
        case Found.UNCLEAR:
            yield Check(what, True, "answers, but not our question")
            yield NotTried(f"credentials_{name}", f"whether {name} takes our key: {answer.words}")
        case found:
            yield Check(what, found == Found.WELL, answer.words)
