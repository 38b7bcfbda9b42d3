"""What goes wrong on purpose, and how often. Settable while running through `/_faults`, seedable to be repeatable."""

from __future__ import annotations

import random
from typing import Any

RATES = {
    "duplicate": "a webhook is sent twice, with the same webhook-id",
    "reorder": "a webhook is held back until a later one of the same job or batch has been sent",
    "delay": "a webhook is sent up to delay_ms later",
    "drop": "a webhook is never sent",
    "unknown_status": "half-way through, the job reports a status that no document mentions (webhook and API)",
    "not_found_after_completion": "the job is not found for not_found_ms after it completed",
    "rate_limited": "a call is answered 429 with Retry-After: 1; nothing happened",
    "server_error": "a call is answered 500; nothing happened",
    "slow": "a call is answered slow_ms late",
    "start_timeout": "a start call starts its jobs, but the answer never comes (the connection is cut after hang_ms)",
    "fail": "the job ends as failed",
    "lose": "the job disappears half-way: 404 for ever, and no more webhooks",
}
NUMBERS: dict[str, tuple[int, int, int]] = {
    # name: default, lowest, highest
    "min_ms": (200, 0, 3_600_000),
    "max_ms": (1500, 0, 3_600_000),
    "concurrency": (500, 1, 100_000),
    "delay_ms": (5000, 0, 600_000),
    "not_found_ms": (1000, 0, 600_000),
    "slow_ms": (2000, 0, 600_000),
    "hang_ms": (60_000, 0, 600_000),
    "coalesce_ms": (150, 0, 10_000),
    "jobs_per_webhook": (25, 1, 10_000),
    "calls_per_s": (500, 0, 1_000_000),
}
UNKNOWN_STATUS = "warming_up"


class BadFault(ValueError):
    """The name or the value of a fault is wrong; the text says which and why."""


class Faults:
    """Rates are 0.0 to 1.0 and thrown for each webhook, call or job. All rates are 0 at first."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._rates = dict.fromkeys(RATES, 0.0)
        self._numbers = {name: default for name, (default, _, _) in NUMBERS.items()}
        self.seed: int | None = None
        self.random = random.Random()

    def set(self, wanted: dict[str, Any]) -> None:
        """Change the named ones, leave the others. All or nothing. Raises BadFault."""
        rates, numbers = dict(self._rates), dict(self._numbers)
        for name, value in wanted.items():
            if name == "seed":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadFault(f"{name} has to be a number")
            if name in RATES:
                rates[name] = float(_within(name, value, 0, 1))
            elif name in NUMBERS:
                numbers[name] = int(_within(name, value, *NUMBERS[name][1:]))
            else:
                raise BadFault(f"there is no fault called {name}; GET /_faults lists them")
        if numbers["min_ms"] > numbers["max_ms"]:
            raise BadFault("min_ms has to be at most max_ms")
        self._rates, self._numbers = rates, numbers
        if "seed" in wanted:
            self.seed = None if wanted["seed"] is None else int(wanted["seed"])
            self.random = random.Random(self.seed)

    def shown(self) -> dict[str, Any]:
        return {**self._rates, **self._numbers, "seed": self.seed}

    def strikes(self, name: str) -> bool:
        """Throw the dice for one fault. A rate of 0 throws none, so a seed stays comparable."""
        rate = self._rates[name]
        return rate > 0 and self.random.random() < rate

    def number(self, name: str) -> int:
        return self._numbers[name]

    def seconds(self, name: str) -> float:
        """One of the `*_ms` numbers, in seconds."""
        return self._numbers[name] / 1000


def _within(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise BadFault(f"{name} has to be from {low} to {high}")
    return value
