"""Message Batches, `POST /v1/messages/batches`. No webhook speaks of them, so the poll does all.

A batch keeps nothing of ours that a listing shows: the custom ids come with its results, up to a day later. So a
start whose answer never came cannot be looked for, and waits for a person instead of being paid for twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

from tasks.providers import prompts
from tasks.providers.answers import Call
from tasks.providers.anthropic import payloads
from tasks.providers.base import (
    Account,
    BadAnswer,
    Gone,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderRejected,
    ProviderUpdate,
    Result,
    StartedJob,
    Unparseable,
)
from tasks.providers.calls import Caller, job_id
from tasks.states import JobStatus

VERSION = "2023-06-01"
PAGE, MAX_PAGES = 1000, 20
KEPT_SECONDS = 28 * 86_400.0  # results are there for 29 days after the batch was made, and making it may take one


class AnthropicBatches(Provider):
    adapter = "anthropic"
    title = "Anthropic (message batches)"
    kinds = prompts.KINDS
    max_batch = 10_000  # Anthropic takes 100,000, and 256 MB
    has_items = True
    finds_references = False
    calls_back = False
    needs_webhook_secret = False
    result_seconds = KEPT_SECONDS
    default_base_url = "https://api.anthropic.com"
    takes_base_url = True
    option_words = prompts.OPTION_WORDS

    def __init__(self, account: Account, *, call_seconds: float | None = None) -> None:
        super().__init__(account)
        headers = {"x-api-key": account.api_key, "anthropic-version": VERSION}
        self._caller = Caller(
            account, self.base_url, headers, refusal=payloads.refusal, denied=payloads.DENIED, seconds=call_seconds
        )

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        return self.start_batch(kind, [job], call)[0]

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        requests = [{"custom_id": job.reference, "params": _params(kind, job, call)} for job in jobs]
        said = self._caller.document(Call.START, "POST", "/v1/messages/batches", json={"requests": requests})
        batch_id = job_id(said.get("id"))
        return [StartedJob(job.reference, batch_id, batch_id, job.reference) for job in jobs]

    def status(self, job: JobRef) -> ProviderUpdate:
        return replace(payloads.update(self._batch(job, Call.POLL)), item_key=job.item_key)

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        """A call for each batch, whatever number of items."""
        found: list[ListedJob] = []
        said: dict[str, ProviderUpdate | None] = {}
        for job in jobs:
            if job.job_id not in said:
                said[job.job_id] = None
                with suppress(NotThere):
                    said[job.job_id] = payloads.update(self._batch(job, Call.POLL))
            if (update := said[job.job_id]) is not None:
                found.append(ListedJob("", replace(update, item_key=job.item_key), job.job_id))
        if since is not None:
            found += [ListedJob("", update, update.job_id) for update in self._newest(since)]
        return found

    def _newest(self, since: datetime) -> Iterator[ProviderUpdate]:
        after: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            query = {"limit": str(PAGE), **after}
            said = self._caller.document(Call.POLL, "GET", "/v1/messages/batches", params=query)
            page = said.get("data")
            if not isinstance(page, list):
                raise BadAnswer("The provider's answer has no list of batches.")
            for batch in page:
                if isinstance(batch, Mapping) and (payloads.moment(batch.get("created_at")) or since) >= since:
                    yield payloads.update(batch)
            oldest = payloads.moment(page[-1].get("created_at")) if page and isinstance(page[-1], Mapping) else None
            if not said.get("has_more") or oldest is None or oldest < since:
                return
            after = {"after_id": job_id(said.get("last_id"))}

    def results(self, job: JobRef) -> Iterator[tuple[str, Result | ProviderError]]:
        """By our own URL and never by the batch's `results_url`, which could lead anywhere."""
        batch = self._batch(job, Call.RESULT)
        update = payloads.update(batch)
        if update.status != JobStatus.SUCCEEDED:
            raise NotThere(f"The batch is {update.raw_status}.")
        if payloads.is_archived(batch):
            raise Gone("The batch is archived, and its results with it.")
        with self._caller.lines(f"{_path(job)}/results") as lines:
            for line, is_whole in lines:
                yield payloads.item(line, is_whole, job.kind)

    def result(self, job: JobRef) -> Result:
        for item_key, found in self.results(job):
            if item_key == job.item_key or not job.item_key:
                if isinstance(found, ProviderError):
                    raise found
                return found
        raise Gone("The batch's results do not name this item.")

    def cancel(self, job: JobRef) -> ProviderUpdate:
        """Cancels the whole batch; so for one item of several nothing is asked, and its status is the answer."""
        batch = self._batch(job, Call.POLL)
        update = payloads.update(batch)
        if update.status == JobStatus.RUNNING and not (job.item_key and payloads.item_count(batch) > 1):
            with suppress(ProviderRejected):  # it ended meanwhile
                update = payloads.update(self._caller.document(Call.CANCEL, "POST", f"{_path(job)}/cancel"))
        return replace(update, item_key=job.item_key)

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        raise Unparseable("Anthropic sends no webhooks about message batches")

    def _batch(self, job: JobRef, purpose: Call) -> Mapping[str, object]:
        return self._caller.document(purpose, "GET", _path(job))


def _params(kind: str, job: NewJob, call: ProviderCall) -> dict[str, object]:
    return {
        "model": prompts.model(call.options),
        "max_tokens": prompts.max_tokens(call.options),
        "messages": [{"role": "user", "content": prompts.words(kind, job.input, call.options)}],
    }


def _path(job: JobRef) -> str:
    return f"/v1/messages/batches/{quote(job.job_id, safe='')}"
