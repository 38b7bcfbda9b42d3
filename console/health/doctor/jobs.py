"""Asks each job provider one harmless question with our real credentials: does it answer, and does it let us in?"""

from collections.abc import Iterator

from console.health.checks import Check
from console.health.doctor.findings import Finding, NotTried
from tasks import providers
from tasks.providers.base import Provider, ProviderDenied, ProviderError, ProviderRejected, ProviderThrottled


def ask_providers() -> Iterator[Finding]:
    found = providers.available()
    if not found:
        yield NotTried("providers", "no job provider is set up: tasks of external kinds need one")
    for name, provider in found.items():
        yield from _ask(name, provider)


def _ask(name: str, provider: Provider) -> Iterator[Finding]:
    what = f"provider_{name}"
    if missing := provider.missing_credentials():
        yield NotTried(what, f"{missing} is not set, so there is nothing to ask {name} with")
        return
    try:
        provider.greet()
    except ProviderDenied as error:
        words = f"It does not let us in: {error.detail} Correct our key for {name}, or ask what our account lacks."
        yield Check(what, False, words)
    except (ProviderThrottled, ProviderRejected) as error:
        yield Check(what, True, f"answers, but not our question ({error.code})")
        yield NotTried(f"credentials_{name}", f"whether {name} takes our key: {error.detail}")
    except ProviderError as error:
        words = f"No usable answer ({error.code}): {error.detail} Is {name} up, and is its address right?"
        yield Check(what, False, words)
    except Exception as error:  # noqa: BLE001 - an adapter is told of by its name, and the others are still asked
        yield Check(
            what, False, f"Its adapter failed ({type(error).__name__}): tasks/providers/{name}/ must be mended."
        )
    else:
        yield Check(what, True, "answers, and takes our credentials")
