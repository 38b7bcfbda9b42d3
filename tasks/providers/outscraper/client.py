"""Outscraper's API: one search is one request. What it lists shows neither our words nor a status: no start is found.

A result that has expired reads `Pending` again, four hours after its end. That is no news of a finished job, and a
fetch takes it for what it is: nothing there.
"""

from collections.abc import Mapping
from typing import Any

from tasks.providers import mapping, results
from tasks.providers.answers import Call
from tasks.providers.base import (
    BadAnswer,
    Gone,
    JobRef,
    NewJob,
    NotThere,
    ParsedCallback,
    ProviderCall,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calling import CallingProvider, parsed, part, understood
from tasks.providers.outscraper import payloads
from tasks.states import JobStatus

NO_CONTENT = 204


class OutscraperProvider(CallingProvider):
    adapter = "outscraper"
    title = "Outscraper"
    scheme = "hmac_sha256_hex"
    kinds = frozenset({"map_search"})
    finds_references = False
    carries_reference = True
    result_seconds = 4 * 3600.0
    default_base_url = "https://api.outscraper.cloud"
    takes_base_url = True
    needs_webhook_secret = False  # its webhooks are signed with the API key
    option_words = {
        "language": "The language of the answers, such as en.",
        "region": "The country to search from, as two letters; else the search's own country.",
        "fields": "Where the places have our fields, such as {'name': 'title'}.",
    }

    def credentials(self) -> dict[str, str]:
        return {"x-api-key": self.account.api_key}

    def secrets(self) -> list[str]:
        """The API key; while it is exchanged, the keys of before as well, as webhook secrets of the account."""
        return [secret for secret in (self.account.api_key, *self.account.secrets) if secret]

    def refusal(self, said: Any) -> tuple[str, str]:
        return "", str(said.get("errorMessage") or "") if isinstance(said, Mapping) else ""

    def greet(self) -> None:
        self.answer(Call.POLL, "/requests", params={"type": "running", "pageSize": "1"})

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        body = _search(job.input, call)
        said = parsed(self.answer(Call.START, "/google-maps-search", call=call, json=body))
        return StartedJob(job.reference, understood(payloads.update, said).job_id)

    def status(self, job: JobRef) -> ProviderUpdate:
        answer = self.answer(Call.POLL, f"/requests/{part(job.job_id)}")
        return (
            payloads.failed(job.job_id)
            if answer.status_code == NO_CONTENT
            else understood(payloads.update, parsed(answer))
        )

    def result(self, job: JobRef) -> Any:
        answer = self.answer(Call.RESULT, f"/requests/{part(job.job_id)}")
        read = results.read(answer.content)
        said = read.value
        state = understood(payloads.update, said)
        if state.status == JobStatus.FAILED:
            raise Gone("The request ended as a failure; it has no result.")
        if state.status != JobStatus.SUCCEEDED:
            raise NotThere(f"The request reads “{state.raw_status}”: not there yet, or expired after four hours.")
        try:
            found = payloads.items(said.get("data"))
        except payloads.Unparseable as error:
            raise BadAnswer(f"The result cannot be used: {error}.", raw=answer.content) from None
        places, left_out = mapping.places(found, job.options.get("fields"))
        return Result({"places": places}, read.raw, " ".join(words for words in (read.note, left_out) if words))

    def cancel(self, job: JobRef) -> ProviderUpdate:
        """Terminates it, and looks: it may have ended before."""
        self.answer(Call.CANCEL, f"/requests/{part(job.job_id)}", method="DELETE")
        found = self.status(job)
        return payloads.terminated(job.job_id) if found.status == JobStatus.RUNNING else found

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)


def _search(given: Mapping[str, Any], call: ProviderCall) -> dict[str, Any]:
    where = [str(given[name]) for name in ("trade", "place", "country") if given.get(name)]
    region = call.options.get("region") or given.get("country")
    body = {
        "query": [", ".join(where)],
        "organizationsPerQueryLimit": given.get("limit", 10),
        "language": call.options.get("language"),
        "region": str(region).upper() if region else None,
        "async": True,
        "webhook": call.webhook_url,
    }
    return {name: value for name, value in body.items() if value not in (None, "")}
