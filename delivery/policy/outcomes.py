"""What an answer means: one table from status, failure and body to an outcome and its consequences.

Pure. It decides nothing about time (see `retry`), nothing about the breaker's state (see `breaker`), and never looks
at a payload. The words of `Outcome` are shown to operators, stored on attempts and counted in /stats/.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from kernel.network.retry_after import seconds_to_wait

TRANSIENT_STATUS = frozenset({408, 425})
PERMANENT_5XX = frozenset({501, 505})


class Outcome(StrEnum):
    """How one attempt ended, in one word."""

    DELIVERED = "delivered"
    DUPLICATE = "duplicate"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    DNS = "dns"
    TLS = "tls"
    SERVER_ERROR = "server_error"
    THROTTLED = "throttled"
    GONE = "gone"
    REJECTED = "rejected"
    REDIRECT = "redirect"
    REFUSED = "refused"
    BLOCKED = "blocked"
    OWN_FAULT = "own_fault"
    RESCUED = "rescued"


class Failure(StrEnum):
    """Why a transfer ended without a complete answer. Transport's word; `classify` makes an outcome of it."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    DNS = "dns"
    TLS = "tls"
    BLOCKED = "blocked"
    OWN_FAULT = "own_fault"
    ABORTED = "aborted"


class DecisionKind(StrEnum):
    """What happens to the delivery after this outcome."""

    SUCCESS = "success"
    TRANSIENT = "transient"  # retried by the endpoint's profile
    THROTTLE = "throttle"  # the endpoint waits; costs no attempt
    PERMANENT = "permanent"  # dead letter
    GONE = "gone"  # the endpoint is disabled, its deliveries are held
    OURS = "ours"  # tried again soon; costs no attempt


SUCCESSES = frozenset({Outcome.DELIVERED, Outcome.DUPLICATE})
BREAKER_COUNTS = frozenset({Outcome.TIMEOUT, Outcome.CONNECTION, Outcome.DNS, Outcome.TLS, Outcome.SERVER_ERROR})
REFUSALS = frozenset({Outcome.REJECTED, Outcome.REFUSED, Outcome.REDIRECT, Outcome.BLOCKED})

EXPLANATIONS: dict[Outcome, str] = {
    Outcome.DELIVERED: "The receiver accepted it.",
    Outcome.DUPLICATE: "The receiver says it had it already; counts as delivered.",
    Outcome.TIMEOUT: "No complete answer in time.",
    Outcome.CONNECTION: "No connection, or it broke; the attempt says whether the receiver may have it.",
    Outcome.DNS: "The host name could not be resolved.",
    Outcome.TLS: "The TLS handshake or certificate failed.",
    Outcome.SERVER_ERROR: "The receiver reports a fault of its own.",
    Outcome.THROTTLED: "The receiver asks us to slow down; the whole endpoint waits.",
    Outcome.GONE: "The receiver says it is gone for good; the endpoint is disabled.",
    Outcome.REJECTED: "The receiver refused the request. Repeating it unchanged does not help.",
    Outcome.REDIRECT: "The receiver answers with a redirect, which is never followed. Update the endpoint's URL.",
    Outcome.REFUSED: "The receiver answered 2xx, but its body says no.",
    Outcome.BLOCKED: "Not sent: the address may not be called, or the event lacks what the postback needs.",
    Outcome.OWN_FAULT: "A fault on our side; the receiver was not charged an attempt.",
    Outcome.RESCUED: "The worker died or lost its lease; whether the receiver got it is unknown.",
}

_BY_FAILURE = {
    Failure.TIMEOUT: (Outcome.TIMEOUT, DecisionKind.TRANSIENT),
    Failure.CONNECTION: (Outcome.CONNECTION, DecisionKind.TRANSIENT),
    Failure.DNS: (Outcome.DNS, DecisionKind.TRANSIENT),
    Failure.TLS: (Outcome.TLS, DecisionKind.TRANSIENT),
    Failure.BLOCKED: (Outcome.BLOCKED, DecisionKind.PERMANENT),
    Failure.OWN_FAULT: (Outcome.OWN_FAULT, DecisionKind.OURS),
    Failure.ABORTED: (Outcome.OWN_FAULT, DecisionKind.OURS),
}


@dataclass(frozen=True, slots=True)
class BodyRule:
    """What a 2xx body must say: phrases, found anywhere in the head of the body, whatever the case and spacing.

    Asked in this order: a `duplicate` phrase is there → duplicate; a `refused` phrase is there → refused; `success`
    phrases are set and none is there → refused; else delivered. Phrases and not expressions: a pattern that
    backtracks for seconds on a hostile body would stop everybody's deliveries.
    """

    success: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    duplicate: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> BodyRule | None:
        """From an endpoint's JSON, `{"success": "ok", "refused": "invalid click|expired"}`; None where empty.

        Raises ValueError, in words, for anything else.
        """
        value = value or {}
        if unknown := set(value) - {"success", "refused", "duplicate"}:
            raise ValueError(f"A body rule knows success, refused and duplicate, not {sorted(unknown)[0]!r}.")
        rule = cls(**{name: _phrases(phrases) for name, phrases in value.items()})
        return rule if rule.success or rule.refused or rule.duplicate else None


def _phrases(value: Any) -> tuple[str, ...]:
    """Phrases from a list, or from one string with | between them."""
    parts = value.split("|") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("Write a body rule's phrases as a text, with | between alternatives.")
    return tuple(folded for part in parts if (folded := _folded(part)))


@dataclass(frozen=True, slots=True)
class Decision:
    """An outcome with its consequences; what is not said here is the caller's policy (delay, attempts left)."""

    outcome: Outcome
    kind: DecisionKind
    pause_endpoint_seconds: float | None = None

    @property
    def is_success(self) -> bool:
        return self.kind is DecisionKind.SUCCESS

    @property
    def counts_for_breaker(self) -> bool:
        return self.outcome in BREAKER_COUNTS

    @property
    def is_refusal(self) -> bool:
        """A permanent no, of whatever sort; five in a row hold the endpoint (see `holds`)."""
        return self.outcome in REFUSALS and self.kind is DecisionKind.PERMANENT


def classify(
    *,
    status: int = 0,
    failure: Failure | None = None,
    retry_after: str = "",
    date: str = "",
    body_head: bytes = b"",
    now: datetime,
    transient_codes: Collection[int] = (),
    not_found_is_transient: bool = False,
    body_rule: BodyRule | None = None,
    body_is_whole: bool = True,
) -> Decision:
    """Judge one attempt. `failure` goes before `status`: an answer cut off half-way is no answer.

    A body that could not be read to its end (`body_is_whole`) still fulfils a body rule by a phrase that came; where it
    said nothing, it is as if the connection had been lost: a rule needs the answer, and silence is no refusal.

    `date` is the answer's own: a `Retry-After` that names a moment is counted from it.

    `transient_codes` are the endpoint's exceptions (4xx, 501, 505 to be retried); `not_found_is_transient` is set by
    every retry profile but `spec`. Statuses under 200 or over 599 count as server errors.
    """
    if failure is not None:
        return Decision(*_BY_FAILURE[failure])
    if 200 <= status < 300:
        return _by_body(body_rule, body_head, body_is_whole) if body_rule else _DELIVERED
    if status == 429:
        return Decision(Outcome.THROTTLED, DecisionKind.THROTTLE, seconds_to_wait(retry_after, now, date))
    if status == 503 and (wait := seconds_to_wait(retry_after, now, date)) is not None:
        return Decision(Outcome.THROTTLED, DecisionKind.THROTTLE, wait)
    return _by_status(status, transient_codes, not_found_is_transient)


_DELIVERED = Decision(Outcome.DELIVERED, DecisionKind.SUCCESS)


def _by_status(status: int, transient_codes: Collection[int], not_found_is_transient: bool) -> Decision:
    if status == 410:
        return Decision(Outcome.GONE, DecisionKind.GONE)
    if 300 <= status < 400:
        return Decision(Outcome.REDIRECT, DecisionKind.PERMANENT)
    if status in TRANSIENT_STATUS:
        return Decision(Outcome.TIMEOUT if status == 408 else Outcome.SERVER_ERROR, DecisionKind.TRANSIENT)
    if 400 <= status < 500 or status in PERMANENT_5XX:
        excused = status in transient_codes or (status == 404 and not_found_is_transient)
        return Decision(Outcome.REJECTED, DecisionKind.TRANSIENT if excused else DecisionKind.PERMANENT)
    return Decision(Outcome.SERVER_ERROR, DecisionKind.TRANSIENT)


def _by_body(rule: BodyRule, head: bytes, is_whole: bool) -> Decision:
    text = _folded(head.decode("utf-8", "replace"))
    if _says(text, rule.duplicate):
        return Decision(Outcome.DUPLICATE, DecisionKind.SUCCESS)
    if _says(text, rule.refused):
        return Decision(Outcome.REFUSED, DecisionKind.PERMANENT)
    if _says(text, rule.success):
        return _DELIVERED
    if not is_whole:
        return Decision(*_BY_FAILURE[Failure.CONNECTION])
    return Decision(Outcome.REFUSED, DecisionKind.PERMANENT) if rule.success else _DELIVERED


def _says(text: str, phrases: tuple[str, ...]) -> bool:
    return any(_folded(phrase) in text for phrase in phrases)


def _folded(text: str) -> str:
    return "".join(text.casefold().split())
