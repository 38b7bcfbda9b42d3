"""How Anthropic writes a batch, the lines of its results, and errors. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers import prompts
from tasks.providers.base import AnswerTooLarge, BadAnswer, ItemFailed, ProviderError, ProviderUpdate, Result
from tasks.providers.calls import Said, job_id, text
from tasks.states import JobStatus

# `ended` says nothing of the items, and counts are nought until then: each item's fate is in the results.
STATUSES = {
    "in_progress": JobStatus.RUNNING,
    "canceling": JobStatus.RUNNING,
    "ended": JobStatus.SUCCEEDED,
}
COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
DENIED = frozenset({"authentication_error", "billing_error", "permission_error"})
_CUT = "The answer was cut at the most tokens it may have. Raise the option max_tokens; a redrive then starts it again."
_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([A-Za-z0-9_.-]{1,200})"')
_HEAD = 2000


def refusal(said: Any) -> Said:
    """`{"type": "error", "error": {"type", "message"}}`."""
    return Said(str(said["error"]["type"]), str(said["error"]["message"]))


def update(batch: Mapping[str, Any]) -> ProviderUpdate:
    """A batch object, as a word on all of its items. Raises BadAnswer where it names no job."""
    raw = text(batch.get("processing_status"), 60)
    return ProviderUpdate(
        job_id(batch.get("id")),
        status=STATUSES.get(raw, JobStatus.UNKNOWN),
        raw_status=raw,
        happened_at=moment(batch.get("ended_at")),
        means_all_items=True,
    )


def is_archived(batch: Mapping[str, Any]) -> bool:
    return batch.get("archived_at") is not None


def item_count(batch: Mapping[str, Any]) -> int:
    counts = batch.get("request_counts")
    found = [counts.get(name) for name in COUNTS] if isinstance(counts, Mapping) else []
    return sum(number for number in found if isinstance(number, int))


def moment(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None


def item(line: bytes, is_whole: bool, kind: str) -> tuple[str, Result | ProviderError]:
    """One line of the results: `{custom_id, result: {type, …}}`. The item key may be ""."""
    if not is_whole:
        return _named(line), AnswerTooLarge("This item's result is longer than we take.")
    try:
        said = tolerant_loads(line)
    except HostileJSON as error:
        return _named(line), BadAnswer(f"This item's result cannot be used: {error}.", raw=line)
    if not isinstance(said, Mapping):
        return "", BadAnswer("A line of the results is not a JSON object.", raw=line)
    return text(said.get("custom_id"), 200), _outcome(said.get("result"), line, kind)


def _named(line: bytes) -> str:
    found = _CUSTOM_ID.search(line[:_HEAD])
    return found.group(1).decode() if found else ""


def _outcome(found: Any, line: bytes, kind: str) -> Result | ProviderError:
    fate = found.get("type") if isinstance(found, Mapping) else None
    if fate == "succeeded" and isinstance(found.get("message"), Mapping):
        try:
            return _answer(found["message"], kind)
        except ProviderError as error:
            return error
    if fate == "errored":
        return _errored(found.get("error"))
    if fate == "expired":
        return ItemFailed("The batch's 24 hours were over before this item's turn came.", said="expired")
    if fate == "canceled":
        return ItemFailed("The batch was cancelled before this item's turn came.", said="canceled")
    return BadAnswer(f"This item's result is of a sort that is not known: {text(fate, 60) or 'none'}.", raw=line)


def _errored(error: Any) -> ItemFailed:
    inner = error.get("error") if isinstance(error, Mapping) else None
    said = inner if isinstance(inner, Mapping) else error if isinstance(error, Mapping) else {}
    code = text(said.get("type"), 60)
    words = text(said.get("message"), 1000) or "The provider says that this item failed, and not why."
    return ItemFailed(words, said=code, is_permanent=code == "invalid_request_error")


def _answer(message: Mapping[str, Any], kind: str) -> Result:
    """A message's text as the kind's result. Raises BadAnswer with the text; a refusal to answer is none either."""
    blocks = message.get("content")
    parts = [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
    answer = "".join(text(part.get("text"), 10**8) for part in parts if part.get("type") == "text")
    stopped = message.get("stop_reason")
    if stopped == "refusal":
        raise BadAnswer("The model refused to answer.", raw=answer.encode("utf-8", "replace"))
    return prompts.read(kind, answer, _CUT if stopped == "max_tokens" else "")
