"""The alert rules of the inbox: secrets that cannot be used, a source whose refused calls used up the day's budget."""

from collections.abc import Callable
from datetime import datetime

from django.urls import reverse

from console.alerts.rules import Finding
from webhooks import checks, labels, refusals


def signing_secrets(_now: datetime) -> list[Finding]:
    return [
        Finding(
            "signing_secret",
            provider,
            f"A signing secret of {provider} cannot be used",
            " ".join(words),
            "Correct the provider's secret in the environment and restart. Work goes on by the minute poll meanwhile.",
            reverse("admin:webhooks_inboundevent_changelist"),
        )
        for provider, words in checks.secret_faults().items()
    ]


def refused_floods(_now: datetime) -> list[Finding]:
    return [
        Finding(
            "inbound_refused",
            row["source"],
            f"{row['refused']:,} calls to {row['source']} were refused today",
            f"{labels.budget(row)['words']} Genuine events are taken as ever.",
            "Look at the stored ones: a provider with a wrong secret, or a stranger whom the proxy should keep out?",
            reverse("admin:webhooks_refusedcall_changelist"),
            row["refused"],
        )
        for row in refusals.budgets()
        if row["is_used_up"]
    ]


RULES: dict[str, tuple[Callable[[datetime], list[Finding]], ...]] = {
    "signing_secret": (signing_secrets,),
    "inbound_refused": (refused_floods,),
}
