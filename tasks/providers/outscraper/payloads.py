"""How Outscraper writes its requests and its webhook. Pure."""

from collections.abc import Mapping
from typing import Any

from tasks.providers.base import ParsedCallback, ProviderUpdate, Unparseable
from tasks.providers.payloads import callback, needed_id, normal, text, word
from tasks.states import JobStatus

STATUSES = {  # the API writes `Success`, the webhook `SUCCESS`
    "pending": JobStatus.RUNNING,
    "success": JobStatus.SUCCEEDED,
    "failure": JobStatus.FAILED,
}
FAILED = "Failure"


def update(request: Any) -> ProviderUpdate:
    """A request's object, by API or webhook. Raises Unparseable."""
    if not isinstance(request, Mapping):
        raise Unparseable("the request is not an object")
    known, status = needed_id(request.get("id"), "id of a request"), word(request.get("status"))
    means = STATUSES.get(normal(status), JobStatus.UNKNOWN)
    error = text(request.get("errorMessage")) if means == JobStatus.FAILED else ""
    return ProviderUpdate(known, status=means, raw_status=status, error_text=error)


def failed(job_id: str) -> ProviderUpdate:
    """A 204: documented as `Failure`, whose body no HTTP client hands on."""
    words = "Outscraper finished the request without a result."
    return ProviderUpdate(job_id, status=JobStatus.FAILED, raw_status=FAILED, error_text=words)


def terminated(job_id: str) -> ProviderUpdate:
    """The answer to a DELETE that was obeyed; the request itself knows no such word, and goes on reading `Pending`."""
    return ProviderUpdate(job_id, status=JobStatus.CANCELLED, raw_status="terminated")


def parse(body: bytes) -> ParsedCallback:
    return ParsedCallback((update(callback(body)),))


def items(data: Any) -> list[Any]:
    """The places of all queries: `data` is a list for each query, or one flat list. Raises Unparseable."""
    if not isinstance(data, list):
        raise Unparseable("data is not a list")
    return [item for part in data for item in (part if isinstance(part, list) else [part])]
