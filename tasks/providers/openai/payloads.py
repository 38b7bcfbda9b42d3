"""How OpenAI writes responses, batches, the lines of a batch, errors and webhooks. Pure.

Its webhooks are thin: a type and an id. So an event that says that something went wrong does not say why, and is taken
as "look again": the poll, which sees that the status differs, asks within a minute and brings the reason along.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers import prompts
from tasks.providers.base import BadAnswer, Gone, NotThere, ParsedCallback, ProviderUpdate, Result, Unparseable
from tasks.providers.calls import Said, job_id, text
from tasks.states import JobStatus

REFERENCE = "roundtrip"  # our start token's name in the metadata of a response

RESPONSE_STATUSES = {
    "queued": JobStatus.QUEUED,
    "in_progress": JobStatus.RUNNING,
    "completed": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "incomplete": JobStatus.FAILED,
    "cancelled": JobStatus.CANCELLED,
}
BATCH_STATUSES = {
    "validating": JobStatus.QUEUED,
    "in_progress": JobStatus.RUNNING,
    "finalizing": JobStatus.RUNNING,
    "cancelling": JobStatus.RUNNING,
    "completed": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "expired": JobStatus.FAILED,  # but see `batch_update`: where some items were done, the results are read
    "cancelled": JobStatus.CANCELLED,  # likewise
}
EVENTS = {  # a webhook's type is one of these and one of its words, with a dot between
    "response": {
        "completed": JobStatus.SUCCEEDED,
        "failed": JobStatus.RUNNING,
        "incomplete": JobStatus.RUNNING,
        "cancelled": JobStatus.CANCELLED,
    },
    "batch": {
        "completed": JobStatus.SUCCEEDED,
        "failed": JobStatus.RUNNING,
        "expired": JobStatus.RUNNING,
        "cancelled": JobStatus.RUNNING,
    },
}
# Of a failed response these may pass with the same input; what else there is says that the input itself is refused.
PASSING = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout", "failed_to_download_image"})
# A person has to act: wrong key, no money, no such model for this account.
DENIED = frozenset(
    {"invalid_api_key", "insufficient_quota", "billing_hard_limit_reached", "model_not_found", "account_deactivated"}
)


def refusal(said: Any) -> Said:
    """`{"error": {"message", "type", "param", "code"}}`."""
    error = said["error"]
    return Said(str(error.get("code") or error.get("type") or ""), str(error["message"]))


def parse(body: bytes) -> ParsedCallback:
    """A webhook: `{id, type, created_at, data: {id}}`. Of a response or a batch; any other type is unknown."""
    try:
        said = tolerant_loads(body)
    except HostileJSON as error:
        raise Unparseable(f"{error}") from None
    kind = said.get("type") if isinstance(said, Mapping) else None
    if not isinstance(kind, str) or not kind:
        raise Unparseable("the body is not an event with a type")
    thing, _, word = kind.partition(".")
    if thing not in EVENTS:
        return ParsedCallback(unknown_event=kind[:60])
    data = said.get("data")
    try:
        name = job_id(data.get("id") if isinstance(data, Mapping) else None)
    except BadAnswer:
        raise Unparseable("the event names no job: it has no data.id") from None
    update = ProviderUpdate(
        name,
        status=EVENTS[thing].get(word, JobStatus.UNKNOWN),
        raw_status=kind[:60],
        happened_at=moment(said.get("created_at")),
        means_all_items=thing == "batch",
    )
    return ParsedCallback((update,))


def moment(seconds: Any) -> datetime | None:
    """OpenAI's times are Unix seconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 10**11:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def response_update(said: Mapping[str, Any]) -> ProviderUpdate:
    """A response object. Raises BadAnswer where it names no job."""
    raw = text(said.get("status"), 60)
    status = RESPONSE_STATUSES.get(raw, JobStatus.UNKNOWN)
    code, words, is_permanent = _why_failed(said) if status == JobStatus.FAILED else ("", "", False)
    metadata = said.get("metadata")
    return ProviderUpdate(
        job_id(said.get("id")),
        status=status,
        raw_status=raw,
        error_code=code,
        error_text=words,
        happened_at=moment(said.get("completed_at")),
        reference=text(metadata.get(REFERENCE), 200) if isinstance(metadata, Mapping) else "",
        is_permanent=is_permanent,
    )


def _why_failed(said: Mapping[str, Any]) -> tuple[str, str, bool]:
    details, error = said.get("incomplete_details"), said.get("error")
    if said.get("status") == "incomplete" and isinstance(details, Mapping):
        reason = text(details.get("reason"), 40) or "incomplete"
        return reason, f"The answer is incomplete: {reason}.", reason in ("max_output_tokens", "content_filter")
    if isinstance(error, Mapping):
        code = text(error.get("code"), 60)
        return code, text(error.get("message"), 2000), bool(code) and code not in PASSING
    return "", "", False


def result(said: Mapping[str, Any], kind: str) -> Result:
    """A response's answer. Raises NotThere while there is none, Gone where there never will be, BadAnswer."""
    update = response_update(said)
    if update.status in (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.UNKNOWN):
        raise NotThere(f"The response is {update.raw_status or 'without a status'}.")
    if update.status != JobStatus.SUCCEEDED:
        raise Gone(f"The response is {update.raw_status} and has no answer. {update.error_text}".strip())
    return prompts.read(kind, output_text(said))


def output_text(said: Mapping[str, Any]) -> str:
    """The answer's text: all `output_text` parts of its messages. A refusal is one too, and no result."""
    parts = [
        part
        for item in _list(said.get("output"))
        if isinstance(item, Mapping) and item.get("type") == "message"
        for part in _list(item.get("content"))
        if isinstance(part, Mapping)
    ]
    refused = next((text(part.get("refusal"), 300) for part in parts if part.get("type") == "refusal"), "")
    found = "".join(text(part.get("text"), 10**8) for part in parts if part.get("type") == "output_text")
    if refused and not found:
        raise BadAnswer(f"The model refused to answer: {refused}", raw=refused.encode("utf-8", "replace"))
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
