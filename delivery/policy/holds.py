"""Hold, do not burn: when refusals in a row say that the configuration is wrong, not the delivery.

Pure. Five refusals of whatever sort hold the endpoint, so that a rotated credential costs five dead letters and not
ten thousand: what is refused beyond them, or was in the air by then, waits. It decides; the lifecycle holds and raises
the alert.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from delivery.policy.outcomes import Decision, Outcome
from delivery.policy.postback import is_refusal_of_the_event

REFUSALS_TO_HOLD = 5
FIELD_MISSING = "postback field missing"
NOT_RENDERED = "postback unusable"

_ADVICE = {
    "rejected 401": "It does not take our signature or credentials: give it the secret, or correct our headers",
    "rejected 403": "Its permissions have probably changed: correct the endpoint's headers or secret",
    "rejected 404": "The URL is probably wrong: correct it",
    "rejected 405": "It does not take this method: correct the endpoint's method or URL",
    "rejected 413": "It does not take payloads of this size: ask the receiver",
    "rejected 415": "It does not take this content type: ask the receiver",
    "redirect": "The receiver moved: put its new address into the endpoint's URL",
    "blocked": "We may not call that address: correct the URL, or allow it in DELIVERY_ALLOWED_NETWORKS",
    FIELD_MISSING: "The events lack what its template needs: correct it, or what it does about missing fields",
    NOT_RENDERED: "Its postbacks would be too large, or their events cannot be read: shorten its template",
}


@dataclass(frozen=True, slots=True)
class Streak:
    """Refusals in a row, as stored in EndpointHealth: how many, and the kinds of the first five, commas between."""

    refusal_kind: str = ""
    refusal_count: int = 0

    @property
    def needs_attention(self) -> bool:
        return self.refusal_count >= REFUSALS_TO_HOLD

    @property
    def kinds(self) -> Counter[str]:
        return Counter(kind for kind in self.refusal_kind.split(", ") if kind)


NO_STREAK = Streak()


def kind_of(decision: Decision, status: int, *, was_sent: bool = True, error: str = "") -> str:
    """The kind of a refusal: its outcome, with the status of a rejection, e.g. "rejected 401"."""
    if not was_sent:
        return NOT_RENDERED if is_refusal_of_the_event(error) else FIELD_MISSING
    return f"{decision.outcome} {status}" if decision.outcome is Outcome.REJECTED else str(decision.outcome)


def after_attempt(streak: Streak, decision: Decision, status: int, *, was_sent: bool = True, error: str = "") -> Streak:
    """A success ends the streak, a refusal of any kind goes on with it; time-outs and throttling say nothing."""
    if decision.is_success:
        return NO_STREAK if streak.refusal_count else streak
    if not decision.is_refusal:
        return streak
    if streak.needs_attention:
        return Streak(streak.refusal_kind, streak.refusal_count + 1)
    kind = kind_of(decision, status, was_sent=was_sent, error=error)
    return Streak(f"{streak.refusal_kind}, {kind}".lstrip(", "), streak.refusal_count + 1)


def hold_reason(streak: Streak) -> str:
    """What the operator reads: the refusals by their sort, and what to do next."""
    kinds = streak.kinds
    if len(kinds) == 1:
        (kind,) = kinds
        what = "attempts" if kind in (FIELD_MISSING, NOT_RENDERED, Outcome.BLOCKED) else "answers"
        return f"{streak.refusal_count} {what} in a row were “{kind}”. {_advice(kind)}, then press Resume."
    mix = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
    return f"{streak.refusal_count} refusals in a row: {mix}. {_advice('')}, then press Resume."


def _advice(kind: str) -> str:
    return _ADVICE.get(kind, "Look at the last answers and correct the endpoint")
