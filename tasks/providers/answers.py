"""What a provider's answer means: one table of all status codes and four calls, shared by every adapter. Pure.

Only what says that the request itself is wrong is for good: it makes a dead letter, and everything else waits. A start
that may have been obeyed is never simply made again: it is looked for first (`tasks.external.adoption`), because a job
is paid for. An adapter whose provider promises more (a 500 that surely did nothing) says so in `meaning`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from kernel.network.http import BodyTooLarge, CallFailed
from kernel.network.retry_after import seconds_to_wait
from tasks.providers.base import (
    AnswerTooLarge,
    Gone,
    NotThere,
    OutcomeUnknown,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    ProviderThrottled,
    ProviderUnavailable,
)


class Call(StrEnum):
    """The calls of the port, as far as their answers mean different things."""

    START = "start"
    POLL = "poll"
    RESULT = "result"
    CANCEL = "cancel"


class Meaning(StrEnum):
    """What an answer means, whoever gave it."""

    FINE = "fine"
    BAD_INPUT = "bad input"  # for good: the same request will never be taken
    ACCOUNT = "account"  # nothing was done, and a person has to act: key, payment, a proxy's password, a legal block
    THROTTLED = "too many"  # nothing was done; later
    WAIT = "wait"  # nothing was done, or doing it twice does no harm: later
    UNKNOWN = "unknown"  # it may have been done
    NOT_THERE = "not there"  # no such job, or nothing there yet
    GONE = "gone"  # no longer there, and it will not come back


FOR_GOOD = frozenset({400, 404, 409, 410, 413, 415, 422})
ACCOUNT = frozenset({401, 402, 403, 407, 451})
THROTTLED = 429
# A start whose answer does not come from whoever was to do it, or not at the end of it. 302 and 303 often follow a POST
# that was obeyed; 408, 499 and 460 are a time-out and a caller that hung up, as nginx and load balancers word it.
MAYBE_STARTED = frozenset({302, 303, 408, 460, 499})
# Of the 5xx those that say themselves that nothing was done: refused, not supported, overloaded, or never reached.
NOT_STARTED = frozenset({501, 503, 505, 511, 521, 523, 525, 526, 529})
EVERY_CODE = range(100, 1000)  # three digits is all that a status line may have


def meaning(status: int, call: Call, *, nothing_done: frozenset[int] = frozenset()) -> Meaning:
    """What `status` means as the answer to `call`. `nothing_done`: codes of which this provider promises that."""
    if 200 <= status < 300:
        return Meaning.NOT_THERE if call == Call.RESULT and status in (202, 204) else Meaning.FINE
    if status == THROTTLED:
        return Meaning.THROTTLED
    if status in ACCOUNT:
        return Meaning.ACCOUNT
    if status in FOR_GOOD:
        return _refused(status, call)
    if call == Call.START and status not in nothing_done and _maybe_started(status):
        return Meaning.UNKNOWN
    return Meaning.WAIT


def _refused(status: int, call: Call) -> Meaning:
    """Of what is there already, 404 and 410 speak of the job, and 409 of its state; of a start, all of the request."""
    if call == Call.START:
        return Meaning.BAD_INPUT
    if status == 404 or (status == 409 and call == Call.RESULT):
        return Meaning.NOT_THERE
    return Meaning.GONE if status == 410 else Meaning.BAD_INPUT


def _maybe_started(status: int) -> bool:
    return status in MAYBE_STARTED or (status >= 500 and status not in NOT_STARTED)


_ERRORS: dict[Meaning, type[ProviderError]] = {
    Meaning.BAD_INPUT: ProviderRejected,
    Meaning.ACCOUNT: ProviderDenied,
    Meaning.THROTTLED: ProviderThrottled,
    Meaning.WAIT: ProviderUnavailable,
    Meaning.UNKNOWN: OutcomeUnknown,
    Meaning.NOT_THERE: NotThere,
    Meaning.GONE: Gone,
}


def error_for(
    status: int,
    call: Call,
    words: str,
    *,
    headers: Mapping[str, str],
    now: datetime,
    nothing_done: frozenset[int] = frozenset(),
) -> ProviderError | None:
    """The typed error that an answer stands for, with what it says about when to come back; None where it is fine."""
    found = meaning(status, call, nothing_done=nothing_done)
    if found == Meaning.FINE:
        return None
    wait = seconds_to_wait(headers.get("retry-after"), now, headers.get("date"))
    return _ERRORS[found](words, wait)


def failed(error: CallFailed, call: Call) -> ProviderError:
    """The typed error of a call without a usable answer. Only a start that may have been sent is unknown."""
    if call == Call.START:
        return (OutcomeUnknown if error.maybe_sent else ProviderUnavailable)(error.detail)
    if isinstance(error, BodyTooLarge):
        return AnswerTooLarge(error.detail)
    return ProviderUnavailable(error.detail)


def table() -> list[tuple[str, dict[Call, Meaning]]]:
    """The whole of it for the documents: neighbouring codes that mean the same in one row, as `500–502`."""
    rows: list[tuple[int, int, dict[Call, Meaning]]] = []
    for status in EVERY_CODE:
        means: dict[Call, Any] = {call: meaning(status, call) for call in Call}
        if rows and rows[-1][2] == means:
            rows[-1] = (rows[-1][0], status, means)
        else:
            rows.append((status, status, means))
    return [(f"{first}" if first == last else f"{first}–{last}", means) for first, last, means in rows]
