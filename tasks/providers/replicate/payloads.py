"""How Replicate writes a prediction; its webhook is the same object, and has no event type. Pure."""

from collections.abc import Mapping
from typing import Any

from tasks.providers.base import BadAnswer, Gone, NotThere, ParsedCallback, ProviderUpdate, Unparseable
from tasks.providers.payloads import callback, moment, needed_id, normal, text, word
from tasks.states import JobStatus

STATUSES = {
    "starting": JobStatus.QUEUED,
    "processing": JobStatus.RUNNING,
    "succeeded": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "canceled": JobStatus.CANCELLED,
    "cancelled": JobStatus.CANCELLED,
    "aborted": JobStatus.FAILED,  # its deadline passed before it began
}
_ABORTED = "Replicate ended it before it began: its deadline had passed."


def update(prediction: Any) -> ProviderUpdate:
    """A prediction. Raises Unparseable."""
    if not isinstance(prediction, Mapping):
        raise Unparseable("the prediction is not an object")
    known, status = needed_id(prediction.get("id"), "id of a prediction"), word(prediction.get("status"))
    means = STATUSES.get(normal(status), JobStatus.UNKNOWN)
    failed = means == JobStatus.FAILED
    aborted = _ABORTED if normal(status) == "aborted" else ""
    return ProviderUpdate(
        known,
        status=means,
        raw_status=status,
        error_code=normal(status) if failed else "",
        error_text=(text(prediction.get("error")) or aborted) if failed else "",
        happened_at=moment(prediction.get("completed_at")),
    )


def parse(body: bytes) -> ParsedCallback:
    return ParsedCallback((update(callback(body)),))


def output(prediction: Mapping[str, Any]) -> Any:
    """What a finished prediction has made. Raises NotThere, and Gone where it is there no longer.

    After an hour `output` is null and `data_removed` true: a null so come to is no result.
    """
    state = update(prediction)
    if state.status in (JobStatus.FAILED, JobStatus.CANCELLED):
        raise Gone(f"The prediction ended as {state.raw_status}; it has no result.")
    if prediction.get("data_removed") is True:
        raise Gone("Replicate has removed the prediction's data: it keeps it for an hour.")
    if state.status != JobStatus.SUCCEEDED:
        raise NotThere(f"The prediction is {state.raw_status}.")
    made = prediction.get("output")
    if made is None:
        raise NotThere("The prediction has succeeded and shows no output yet.")
    return made


def written(made: Any) -> str:
    """What a language model wrote: a text, or the pieces of one; "" for any other output."""
    pieces = made if isinstance(made, list) else [made]
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else ""


def results_of(said: Mapping[str, Any]) -> list[Any]:
    """The predictions of a page. Raises BadAnswer."""
    found = said.get("results")
    if not isinstance(found, list):
        raise BadAnswer("Replicate's list of predictions has no results.")
    return found
