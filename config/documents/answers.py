"""The headers a receiver gets, and what its answer means: each status, asked of `delivery.policy.outcomes`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from delivery.policy.holds import REFUSALS_TO_HOLD
from delivery.policy.outcomes import EXPLANATIONS, Decision, DecisionKind, Failure, classify
from delivery.policy.retry import schedule_for
from delivery.states import RetryProfile

# `delivery.engine.requests.build` makes them.
SENT_HEADERS = {
    "webhook-id": "The event's id. The same in every repetition, so that a receiver knows what it has.",
    "webhook-timestamp": "When this attempt was signed, in Unix seconds. Refuse what is more than five minutes off.",
    "webhook-signature": "One or more of `v1,<base64>` and `v1a,<base64>`, spaces between; any that fits will do.",
}
AT = datetime(2026, 1, 1, tzinfo=UTC)
FOLLOWS = {
    DecisionKind.SUCCESS: "Done. It is not sent again.",
    DecisionKind.TRANSIENT: "Sent again by the endpoint's retry profile; it costs an attempt.",
    DecisionKind.THROTTLE: "It costs no attempt.",
    DecisionKind.PERMANENT: f"Not sent again: a dead letter. {REFUSALS_TO_HOLD} in a row hold the endpoint.",
    DecisionKind.GONE: "What is owed to it is held until a person enables it.",
    DecisionKind.OURS: "Sent again soon; it costs no attempt.",
}
NO_ANSWER = (Failure.TIMEOUT, Failure.CONNECTION, Failure.DNS, Failure.TLS)


@dataclass(frozen=True)
class Answer:
    """One row: `key` is OpenAPI's (`2XX`, `408`), `words` a person's."""

    key: str
    words: str
    decision: Decision

    @property
    def meaning(self) -> str:
        return f"{EXPLANATIONS[self.decision.outcome]} {FOLLOWS[self.decision.kind]}"


def by_status() -> Iterator[Answer]:
    """Hundred by hundred: what most of its statuses mean, and each that means something else. 404 stands apart."""
    for hundred in (2, 3, 4, 5):
        judged = {status: classify(status=status, now=AT) for status in range(hundred * 100, hundred * 100 + 100)}
        usual = Counter(judged.values()).most_common(1)[0][0]
        others = {status: decision for status, decision in judged.items() if decision != usual}
        for status, decision in others.items():
            yield Answer(str(status), str(status), decision)
        yield Answer(f"{hundred}XX", f"any other {hundred}xx" if others else f"any {hundred}xx", usual)


def rows() -> Iterator[tuple[str, str, str]]:
    """(answer, outcome, what follows), for people."""
    for answer in by_status():
        yield answer.words, f"`{answer.decision.outcome}`", answer.meaning
    told = classify(status=503, retry_after="60", now=AT)
    yield "503 with `Retry-After`", f"`{told.outcome}`", f"{EXPLANATIONS[told.outcome]} {FOLLOWS[told.kind]}"
    lenient = classify(status=404, now=AT, not_found_is_transient=True)
    profiles = ", ".join(f"`{name}`" for name in RetryProfile.values if _spares_404(name))
    yield f"404, with the profiles {profiles}", f"`{lenient.outcome}`", FOLLOWS[lenient.kind]
    for failure in NO_ANSWER:
        decision = classify(failure=failure, now=AT)
        yield "none", f"`{decision.outcome}`", f"{EXPLANATIONS[decision.outcome]} {FOLLOWS[decision.kind]}"


def _spares_404(profile: str) -> bool:
    return schedule_for(profile, (1.0,)).not_found_is_transient
