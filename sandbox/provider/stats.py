"""Counts of what the provider did, by kind, for tests to assert on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sandbox.provider.kinds import KINDS

WEBHOOKS = (
    "messages",
    "updates",
    "attempts",
    "delivered",
    "dropped",
    "duplicated",
    "delayed",
    "reordered",
    "retried",
    "gave_up",
)
JOBS = ("started", "batches", "completed", "failed", "cancelled", "lost")


class Stats:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.calls: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.jobs = {kind: dict.fromkeys(JOBS, 0) for kind in KINDS}
        self.kind_calls: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self.webhooks = {kind: dict.fromkeys(WEBHOOKS, 0) for kind in KINDS}

    def call(self, operation: str, kind: str = "") -> None:
        self.calls[operation] += 1
        if kind:
            self.kind_calls[kind][operation] += 1

    def shown(self) -> dict[str, Any]:
        return {
            "calls": dict(self.calls),
            "answers": dict(self.answers),
            "kinds": {
                kind: {"jobs": self.jobs[kind], "calls": dict(self.kind_calls[kind]), "webhooks": self.webhooks[kind]}
                for kind in KINDS
            },
        }
