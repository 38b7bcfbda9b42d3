"""Hold, do not burn: when refusals in a row say that the configuration is wrong, not the delivery.

Pure. Five refusals of one kind hold the endpoint, so that a rotated credential costs five dead letters and not ten
thousand. It decides; the lifecycle holds and raises the alert.
"""

from __future__ import annotations

from dataclasses import dataclass

from delivery.policy.outcomes import Decision, Outcome

REFUSALS_TO_HOLD = 5

_ADVICE = {
    401: "Its credentials have probably been rotated: correct the endpoint's headers or secret",
    403: "Its permissions have probably changed: correct the endpoint's headers or secret",
    404: "The URL is probably wrong: correct it",
    405: "It does not take this method: correct the endpoint's method or URL",
    413: "It does not take payloads of this size: ask the receiver",
    415: "It does not take this content type: ask the receiver",
}


@dataclass(frozen=True, slots=True)
class Streak:
    """Refusals of one kind in a row, as stored in EndpointHealth."""

    refusal_kind: str = ""
    refusal_count: int = 0

    @property
    def needs_attention(self) -> bool:
        return self.refusal_count >= REFUSALS_TO_HOLD


NO_STREAK = Streak()


def kind_of(decision: Decision, status: int) -> str:
    """The kind of a refusal: outcome and status, e.g. "rejected 401"; a body rule's is "refused"."""
    return f"{decision.outcome} {status}" if decision.outcome is Outcome.REJECTED else str(decision.outcome)


def after_attempt(streak: Streak, decision: Decision, status: int) -> Streak:
    """A success ends the streak, another kind begins a new one; time-outs and throttling say nothing about it."""
    if decision.is_success:
        return NO_STREAK if streak.refusal_count else streak
    if not decision.is_refusal:
        return streak
    kind = kind_of(decision, status)
    return Streak(kind, streak.refusal_count + 1 if kind == streak.refusal_kind else 1)


def hold_reason(streak: Streak, status: int = 0) -> str:
    """What the operator reads, with what to do next."""
    advice = _ADVICE.get(status, "Look at the last answers and correct the endpoint")
    return f"{streak.refusal_count} answers in a row were “{streak.refusal_kind}”. {advice}, then press Resume."
