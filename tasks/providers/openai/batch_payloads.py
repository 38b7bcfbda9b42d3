"""How OpenAI writes a batch, the lines of its two files, and how our tokens lie in its metadata. Pure."""

import base64
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers.base import (
    AnswerTooLarge,
    BadAnswer,
    ItemFailed,
    ListedJob,
    ProviderError,
    ProviderUpdate,
    Result,
)
from tasks.providers.calls import Said, job_id, text
from tasks.providers.openai import payloads
from tasks.states import JobStatus

# Metadata: at most 16 pairs, 512 characters a value. So 15 values of 64 short tokens each, and one with their number.
SHORT = 8  # 48 bits as base64url
PER_VALUE, VALUES = 64, 15
MOST_ITEMS = PER_VALUE * VALUES
OURS = "roundtrip"
_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([A-Za-z0-9_.-]{1,200})"')
_HEAD = 2000  # of a line that is too long: OpenAI writes the custom id before the response
PASSING = frozenset({"batch_expired", "batch_cancelled", "request_timeout", "server_error", "rate_limit_exceeded"})
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
ENDS = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})


def short(reference: str) -> str:
    """Eight characters that stand for a start token: enough to tell it from all others of our batches."""
    try:
        raw = uuid.UUID(reference).bytes[-6:]  # random in every version of them
    except ValueError:
        raw = uuid.uuid5(uuid.NAMESPACE_OID, reference).bytes[-6:]
    return base64.urlsafe_b64encode(raw).decode()


def metadata(references: Sequence[str]) -> dict[str, str]:
    tokens = [short(reference) for reference in references]
    values = ["".join(tokens[at : at + PER_VALUE]) for at in range(0, len(tokens), PER_VALUE)]
    return {OURS: str(len(tokens)), **{f"starts_{number:02}": value for number, value in enumerate(values)}}


def listed(batch: Mapping[str, Any], references: Sequence[str], *, with_all: bool) -> list[ListedJob]:
    """Those of the references whose start this batch was; with_all, the batch itself too."""
    said = batch.get("metadata")
    kept = said if isinstance(said, Mapping) else {}
    values = [text(value, 512) for name, value in kept.items() if str(name).startswith("starts_")]
    tokens = {value[at : at + SHORT] for value in values for at in range(0, len(value), SHORT)}
    mine = [reference for reference in references if short(reference) in tokens]
    if not mine and not with_all:
        return []
    found = update(batch)
    rows = [ListedJob(reference, replace(found, item_key=reference), found.job_id) for reference in mine]
    return rows or [ListedJob("", found, found.job_id)]


def item_count(batch: Mapping[str, Any]) -> int:
    """By our own note, since the provider's count is nought while it validates."""
    said = batch.get("metadata")
    noted = text(said.get(OURS), 6) if isinstance(said, Mapping) else ""
    counts = batch.get("request_counts")
    counted = counts.get("total") if isinstance(counts, Mapping) else 0
    return int(noted) if noted.isascii() and noted.isdigit() else counted if isinstance(counted, int) else 0


def files(batch: Mapping[str, Any]) -> list[str]:
    """The ids of the files with what was done and with what went wrong, as far as they are there."""
    found = [batch.get("output_file_id"), batch.get("error_file_id")]
    return [name for name in found if isinstance(name, str) and name]


def update(batch: Mapping[str, Any]) -> ProviderUpdate:
    """A batch object, as a word on all of its items.

    One that expired or was cancelled may have done some of them, and these are paid for: its results are then read, and
    those items that are in no file are started again. Raises BadAnswer where it names no job.
    """
    raw = text(batch.get("status"), 60)
    status = payloads.BATCH_STATUSES.get(raw, JobStatus.UNKNOWN)
    if raw in ("expired", "cancelled") and files(batch):
        status = JobStatus.SUCCEEDED
    code, words = _why_failed(batch, raw) if status == JobStatus.FAILED else ("", "")
    return ProviderUpdate(
        job_id(batch.get("id")),
        status=status,
        raw_status=raw,
        progress=_progress(batch),
        error_code=code,
        error_text=words,
        happened_at=payloads.moment(batch.get(f"{raw}_at")) if raw in _ENDED else None,
        means_all_items=True,
    )


def _progress(batch: Mapping[str, Any]) -> int | None:
    counts = batch.get("request_counts")
    if not isinstance(counts, Mapping):
        return None
    total, done, failed = (counts.get(name) for name in ("total", "completed", "failed"))
    if not (isinstance(total, int) and isinstance(done, int) and isinstance(failed, int)) or total <= 0:
        return None
    return max(0, min(100, 100 * (done + failed) // total))


def _why_failed(batch: Mapping[str, Any], raw: str) -> tuple[str, str]:
    if raw == "expired":
        return "batch_expired", "The batch was not done within its 24 hours, and nothing of it was."
    errors = batch.get("errors")
    rows = errors.get("data") if isinstance(errors, Mapping) else None
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], Mapping) else {}
    where = f" (line {first['line']})" if isinstance(first.get("line"), int) else ""
    words = text(first.get("message"), 1900) or "The batch failed, and the provider does not say why."
    return text(first.get("code"), 60) or "batch_failed", f"{words}{where}"


def item(line: bytes, is_whole: bool, kind: str) -> tuple[str, Result | ProviderError]:
    """One line of either file: `{custom_id, response: {status_code, body}, error}`. The item key may be ""."""
    if not is_whole:
        found = _CUSTOM_ID.search(line[:_HEAD])
        return found.group(1).decode() if found else "", AnswerTooLarge("This item's result is longer than we take.")
    try:
        said = tolerant_loads(line)
    except HostileJSON as error:
        found = _CUSTOM_ID.search(line[:_HEAD])
        words = f"This item's result cannot be used: {error}."
        return found.group(1).decode() if found else "", BadAnswer(words, raw=line)
    if not isinstance(said, Mapping):
        return "", BadAnswer("A line of the results is not a JSON object.", raw=line)
    return text(said.get("custom_id"), 200), _outcome(said, line, kind)


def _outcome(said: Mapping[str, Any], line: bytes, kind: str) -> Result | ProviderError:
    error, response = said.get("error"), said.get("response")
    if isinstance(error, Mapping):
        code = text(error.get("code"), 60)
        return ItemFailed(text(error.get("message"), 1000) or code, said=code, is_permanent=code not in PASSING)
    if not isinstance(response, Mapping) or not isinstance(response.get("body"), Mapping):
        return BadAnswer("This item has neither a result nor an error.", raw=line)
    body = response["body"]
    if response.get("status_code") != 200:
        return _refused(response.get("status_code"), body)
    try:
        return payloads.result(body, kind)
    except ProviderError as failure:
        found = payloads.response_update(body) if body.get("id") else None
        if found is not None and found.status == JobStatus.FAILED:
            return ItemFailed(found.error_text, said=found.error_code, is_permanent=found.is_permanent)
        return failure


def _refused(status: Any, body: Mapping[str, Any]) -> ItemFailed:
    """An item that the API itself refused: 4xx for good, but for too many calls and time-outs."""
    try:
        said = payloads.refusal(body)
    except (KeyError, TypeError, AttributeError):
        said = Said()
    is_permanent = isinstance(status, int) and 400 <= status < 500 and status not in (408, 409, 429)
    return ItemFailed(f"{status} {said.message[:900]}".strip(), said=said.code[:60], is_permanent=is_permanent)
