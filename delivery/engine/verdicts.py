"""What becomes of a delivery after one attempt: the endpoint's policy applied to a result. No database, no clock.

`judge` is asked once for every ended transfer. It never raises for anything that a receiver sent.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from delivery.dead_letters import fingerprint
from delivery.engine.requests import Claimed, Config
from delivery.engine.transport.messages import Request, TransferResult
from delivery.policy import own_faults, retry
from delivery.policy.outcomes import Decision, DecisionKind, Failure, Outcome, classify
from delivery.states import State

POISON = "poison"
POISON_RESCUES = 5
MAX_ERROR = 300
MAY_HAVE_IT = "The request was sent: the receiver may have it."
UNBUILT = "The request could not be built"
UNJUDGED = "The answer could not be judged, and the receiver may have the request"
THROTTLES_COUNTED = 32_000  # the column holds no more


_DELIVERED = State.DELIVERED.value
_NO_MOMENT = datetime.fromtimestamp(0, UTC)  # only a Retry-After is counted from one
_ACCEPTED = classify(status=200, now=_NO_MOMENT)
_ACCEPTED_WORD = _ACCEPTED.outcome.value


@dataclass(slots=True)
class Verdict:
    """The row after the attempt. `cost` is what it adds to `attempt_count`; `delay` is seconds until it is due."""

    claimed: Claimed
    result: TransferResult | None
    decision: Decision
    state: str
    cost: int
    throttle_count: int = 0
    rescue_count: int = 0
    delay: float = 0.0
    outcome: str = ""
    error: str = ""
    fingerprint: str = ""
    is_outdated: bool = False  # sent with settings that are no more, and of those that may hold an endpoint

    @property
    def status(self) -> int:
        return self.result.status if self.result is not None else 0


def judge(claimed: Claimed, result: TransferResult, rng: random.Random) -> Verdict:
    """What this result means for its delivery."""
    config = claimed.config
    if result.failure is None and 200 <= result.status < 300 and config.body_rule is None:
        return Verdict(claimed, result, _ACCEPTED, _DELIVERED, 1, outcome=_ACCEPTED_WORD)  # nearly all: no detours
    decision = classify(
        status=result.status,
        failure=result.failure,
        retry_after=result.header("retry-after") if result.status in (429, 503) else "",
        date=result.header("date") if result.status in (429, 503) else "",
        body_head=result.head if config.body_rule is not None else b"",
        now=datetime.fromtimestamp(claimed.began_at, UTC),
        transient_codes=config.transient_codes,
        not_found_is_transient=config.schedule.not_found_is_transient,
        body_rule=config.body_rule,
        body_is_whole=result.is_whole,
    )
    if decision.kind is DecisionKind.SUCCESS:
        return Verdict(claimed, result, decision, State.DELIVERED.value, 1, outcome=decision.outcome.value)
    verdict = Verdict(
        claimed, result, decision, State.FAILED.value, 0, outcome=decision.outcome.value, error=error_of(result)
    )
    verdict.rescue_count = claimed.rescue_count if decision.kind is DecisionKind.OURS else 0
    _AFTER[decision.kind](verdict, config, rng)
    if verdict.state == State.DEAD_LETTER.value:
        verdict.fingerprint = fingerprint(config.id, verdict.outcome, verdict.status or None, verdict.error)
    return verdict


def unbuildable(claimed: Claimed, error: Exception, rng: random.Random, what: str = UNBUILT) -> Verdict:
    """Our own code failed on this row where others pass: it alone waits, and five times running make it `poison`."""
    decision = Decision(Outcome.OWN_FAULT, DecisionKind.OURS)
    verdict = Verdict(claimed, None, decision, State.FAILED.value, 0, outcome=decision.outcome.value)
    verdict.error = getattr(error, "detail", "") or f"{what}: {type(error).__name__}."
    verdict.rescue_count = claimed.rescue_count + 1
    verdict.throttle_count = claimed.throttle_count
    verdict.delay = retry.own_fault_delay(rng)
    if verdict.rescue_count >= POISON_RESCUES:
        verdict.state, verdict.outcome = State.DEAD_LETTER.value, POISON
        verdict.fingerprint = fingerprint(claimed.config.id, POISON, None, verdict.error)
    return verdict


def faulty_here(claimed: Claimed, error: Exception, rng: random.Random, what: str, *, is_noted: bool) -> Verdict:
    """Our code failed, not for this row's sake: it waits and is not charged. `is_noted`: in its endpoint's health."""
    decision = Decision(Outcome.OWN_FAULT, DecisionKind.OURS)
    verdict = Verdict(claimed, None, decision, State.FAILED.value, 0, outcome=decision.outcome.value)
    verdict.error = f"{what}: {type(error).__name__}. So it is with every delivery of that worker."
    verdict.rescue_count, verdict.throttle_count = claimed.rescue_count, claimed.throttle_count
    verdict.delay = retry.own_fault_delay(rng)
    if is_noted:
        request = Request("", key=claimed)
        verdict.result = TransferResult(request, 0, Failure.OWN_FAULT, verdict.error, own_faults.Kind.PROCESS)
    return verdict


def held_back(verdict: Verdict) -> None:
    """Its endpoint is held for refusals like this one: it waits, as it was, instead of being a dead letter too."""
    verdict.state, verdict.cost, verdict.fingerprint = State.FAILED.value, 0, ""
    verdict.throttle_count = verdict.claimed.throttle_count


def refused_by_template(claimed: Claimed, detail: str) -> Verdict:
    """The event lacks what the postback needs: nothing was sent, and nothing will change by trying again."""
    verdict = Verdict(
        claimed,
        None,
        Decision(Outcome.BLOCKED, DecisionKind.PERMANENT),
        State.DEAD_LETTER.value,
        1,
        error=detail[:MAX_ERROR],
    )
    verdict.outcome = Outcome.BLOCKED.value
    verdict.fingerprint = fingerprint(claimed.config.id, verdict.outcome, None, verdict.error)
    return verdict


def error_of(result: TransferResult) -> str:
    """What went wrong, for people and fingerprints; never anything of URL, headers or body."""
    if result.failure is None:
        return plain(f"HTTP {result.status}{'' if result.is_whole else f', but: {result.flaw}'}")[:MAX_ERROR]
    text = result.detail or result.failure.value
    if result.rule and result.rule not in text:
        text = f"{result.rule}: {text}"
    if result.request_sent:
        text = f"{text[: MAX_ERROR - len(MAY_HAVE_IT) - 2].rstrip('. ')}. {MAY_HAVE_IT}"
    return plain(text)[:MAX_ERROR]


def plain(text: str) -> str:
    """What PostgreSQL takes as text, whatever a receiver put into it."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")


def _transient(verdict: Verdict, config: Config, rng: random.Random) -> None:
    claimed = verdict.claimed
    if claimed.is_probe and verdict.decision.counts_for_breaker:
        return  # the breaker asked, not the delivery: costs nothing, and waits with all others
    _spend(verdict, config, rng)


def _spend(verdict: Verdict, config: Config, rng: random.Random) -> None:
    verdict.cost = 1
    failed = verdict.claimed.attempt_count + 1
    if failed >= config.max_attempts:
        verdict.state = State.DEAD_LETTER.value
    else:
        verdict.delay = config.schedule.delay(failed, rng)


def _throttle(verdict: Verdict, config: Config, rng: random.Random) -> None:
    """Costs no attempt, however often: what bounds it is its age."""
    claimed, times = verdict.claimed, verdict.claimed.throttle_count + 1
    verdict.throttle_count = min(times, THROTTLES_COUNTED)
    verdict.delay = retry.throttle_wait(config.schedule, verdict.decision.pause_endpoint_seconds, times, rng)
    since = claimed.throttled_since
    if since is not None and claimed.began_at - since >= config.schedule.throttle_window_seconds(config.max_attempts):
        verdict.state, verdict.cost = State.DEAD_LETTER.value, 1


def _permanent(verdict: Verdict, config: Config, rng: random.Random) -> None:
    verdict.cost = 1
    verdict.state = State.DEAD_LETTER.value


def _gone(verdict: Verdict, config: Config, rng: random.Random) -> None:
    """The endpoint is disabled; the delivery waits, as it was, until a person enables it."""


def _ours(verdict: Verdict, config: Config, rng: random.Random) -> None:
    claimed, result = verdict.claimed, verdict.result
    verdict.throttle_count = claimed.throttle_count
    if result is not None and result.failure is Failure.ABORTED:
        first = not (claimed.attempt_count or claimed.throttle_count or claimed.rescue_count)
        verdict.state = State.PENDING.value if first else State.FAILED.value
    else:
        verdict.delay = retry.own_fault_delay(rng)


_AFTER = {
    DecisionKind.TRANSIENT: _transient,
    DecisionKind.THROTTLE: _throttle,
    DecisionKind.PERMANENT: _permanent,
    DecisionKind.GONE: _gone,
    DecisionKind.OURS: _ours,
}
