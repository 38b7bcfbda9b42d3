"""An attempt as a line of PostgreSQL's COPY: the record of one try, with its phases and who signed.

Response heads are kept where somebody will want to read them: not for a plain 2xx. Nothing here is ever logged.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from delivery.engine.bounds import DELAY_MOST, milliseconds, small, text, whole, within, words
from delivery.engine.transport.messages import TransferResult
from delivery.engine.verdicts import Verdict, plain
from delivery.policy.outcomes import DecisionKind
from delivery.states import State

_SUCCESS, _FAILED = (
    DecisionKind.SUCCESS,
    State.FAILED.value,
)  # an enum's attribute is slow to ask for
HEAD_BYTES = 16 * 1024
MAX_NOTE = 200
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\x00": ""})


def line_of(verdict: Verdict, worker: str) -> str:
    """The columns of `claims.ATTEMPT_COLUMNS`, tab-separated; \\N is NULL. Whatever is given, each fits its column."""
    claimed, result = verdict.claimed, verdict.result
    began = moment(claimed.began_at)
    error = text(verdict.error, 300).translate(_ESCAPES) if verdict.error else ""
    status, response, wire = NULL, NULL, _NOTHING_SENT
    phases = f"{NULL}\t{NULL}\t{NULL}\t{NULL}\t{NULL}\t"
    if result is not None:
        status, response = str(small(result.status)) if result.status else NULL, _head_of(verdict)
        wire = _SENT if result.request_sent and response is NULL and not result.flaw else _wire(result, response)
        first, total = milliseconds(result.first_byte_ms), milliseconds(result.total_ms)
        address = text(result.address, 60).translate(_ESCAPES)
        if result.reused:
            phases = f"{NULL}\t{NULL}\t{NULL}\t{first}\t{total}\t{address}"
        else:
            phases = (
                f"{milliseconds(result.dns_ms)}\t{milliseconds(result.connect_ms)}\t"
                f"{milliseconds(result.tls_ms) or NULL}\t{first or NULL}\t{total}\t{address}"
            )
    return (
        f"{claimed.id}\t{claimed.config.id}\t{small(claimed.try_count + 1)}\t{text(verdict.outcome, 20)}\t{status}\t"
        f"{error}\t{began}\t{whole(claimed.waited_ms)}\t{phases}\t{claimed.signed_at or NULL}\t"
        f"{words(claimed.key_ids, 60)}\t{'t' if claimed.is_probe else 'f'}\t{text(worker, 80)}\t{response}\t"
        f"{_retry_at(verdict)}\t{wire}\t{small(claimed.cycle)}\n"
    )


NULL = "\\N"
_SENT, _NOTHING_SENT = "t\tf\t", "f\tf\t"


@lru_cache(maxsize=64)
def moment(seconds: float) -> str:
    """All of one claim began at the same moment, so this is asked the same again and again."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _head_of(verdict: Verdict) -> str:
    result = verdict.result
    if result is None or not result.head:
        return NULL
    if verdict.decision.kind is _SUCCESS and verdict.claimed.config.body_rule is None:
        return NULL
    return "\\\\x" + result.head[:HEAD_BYTES].hex()


def _wire(result: TransferResult, response: str) -> str:
    """What the wire said beside status and body: whether the request went out, what was cut and what was odd."""
    is_cut = result.truncated and response is not NULL
    note = text(plain(result.flaw), MAX_NOTE).translate(_ESCAPES)
    return f"{'t' if result.request_sent else 'f'}\t{'t' if is_cut else 'f'}\t{note}"


def _retry_at(verdict: Verdict) -> str:
    if verdict.state != _FAILED:
        return NULL
    took = milliseconds(verdict.result.total_ms) / 1000 if verdict.result is not None else 0.0
    return moment(verdict.claimed.began_at + took + within(verdict.delay, DELAY_MOST))
