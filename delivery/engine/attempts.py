"""An attempt as a line of PostgreSQL's COPY: the record of one try, with its phases and who signed.

Response heads are kept where somebody will want to read them: not for a plain 2xx. Nothing here is ever logged.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from delivery.engine.messages import TransferResult
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
    """The columns of `claims.ATTEMPT_COLUMNS`, tab-separated; \\N is NULL."""
    claimed, result = verdict.claimed, verdict.result
    began = moment(claimed.began_at)
    number = claimed.attempt_count + 1 if verdict.cost else 0
    error = verdict.error.translate(_ESCAPES) if verdict.error else ""
    if result is None:
        phases = f"{NULL}\t{NULL}\t{NULL}\t{NULL}\t{NULL}\t"
        status, response, wire = NULL, NULL, "f\tf\t"
    else:
        status, response = str(result.status) if result.status else NULL, _head_of(verdict)
        wire = _SENT if result.request_sent and response is NULL and not result.flaw else _wire(result, response)
        if result.reused:
            phases = f"{NULL}\t{NULL}\t{NULL}\t{result.first_byte_ms}\t{result.total_ms}\t{result.address}"
        else:
            phases = (
                f"{result.dns_ms}\t{result.connect_ms}\t{result.tls_ms or NULL}\t{result.first_byte_ms or NULL}\t"
                f"{result.total_ms}\t{result.address}"
            )
    return (
        f"{claimed.id}\t{claimed.config.id}\t{number}\t{verdict.outcome}\t{status}\t{error}\t{began}\t"
        f"{max(0, int(claimed.waited_ms))}\t{phases}\t{claimed.signed_at or NULL}\t{claimed.key_ids}\t"
        f"{'t' if claimed.is_probe else 'f'}\t{worker}\t{response}\t{_retry_at(verdict)}\t{wire}\n"
    )


NULL = "\\N"
_SENT = "t\tf\t"


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
    note = plain(result.flaw)[:MAX_NOTE].translate(_ESCAPES)
    return f"{'t' if result.request_sent else 'f'}\t{'t' if is_cut else 'f'}\t{note}"


def _retry_at(verdict: Verdict) -> str:
    if verdict.state != _FAILED:
        return NULL
    took = verdict.result.total_ms / 1000 if verdict.result is not None else 0.0
    return moment(verdict.claimed.began_at + took + verdict.delay)
