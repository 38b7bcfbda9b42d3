"""The Batch API: a file of requests is uploaded, then a batch is made of it. Half the price, done within 24 hours.

Only the second step costs anything and can be found again: an upload that broke off started nothing, and is simply made
anew; the file it may have left is named by nothing and expires. The batch's metadata hold the last letters of each
item's start token, so that a batch whose answer never came is found by the listing, and never paid for twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tasks.providers import prompts
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    BadAnswer,
    Gone,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    OutcomeUnknown,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calls import Caller, job_id
from tasks.providers.openai import batch_payloads, payloads
from tasks.providers.openai.responses import request

PAGE, MAX_PAGES = 100, 20  # of the listing, newest first: the last 2,000 batches
KEPT_SECONDS = 30 * 86_400  # what OpenAI keeps a batch's files at most
UPLOAD_KEPT_SECONDS = 3 * 86_400  # longer than a batch may take


class OpenAIBatches(Provider):
    adapter = "openai_batch"
    title = "OpenAI (batches)"
    scheme = "standard_webhooks"
    kinds = prompts.KINDS
    max_batch = batch_payloads.MOST_ITEMS
    has_items = True
    result_seconds = float(KEPT_SECONDS)
    default_base_url = "https://api.openai.com"
    takes_base_url = True
    option_words = prompts.OPTION_WORDS

    def __init__(self, account: Account, *, call_seconds: float | None = None) -> None:
        super().__init__(account)
        headers = {"authorization": f"Bearer {account.api_key}"}
        self._caller = Caller(
            account, self.base_url, headers, refusal=payloads.refusal, denied=payloads.DENIED, seconds=call_seconds
        )

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        return self.start_batch(kind, [job], call)[0]

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        lines = [_line(kind, job, call.options) for job in jobs]
        file_id = self._upload("".join(lines).encode(), jobs[0].reference)
        body = {
            "input_file_id": file_id,
            "endpoint": "/v1/responses",
            "completion_window": "24h",
            "metadata": batch_payloads.metadata([job.reference for job in jobs]),
            "output_expires_after": {"anchor": "created_at", "seconds": KEPT_SECONDS},
        }
        try:
            said = self._caller.document(Call.START, "POST", "/v1/batches", json=body)
        except OutcomeUnknown:
            raise
        except ProviderError:
            self._forget(file_id)
            raise
        batch_id = job_id(said.get("id"))
        return [StartedJob(job.reference, batch_id, batch_id, job.reference) for job in jobs]

    def _upload(self, content: bytes, name: str) -> str:
        """The file's id. It starts nothing, so whatever happens to this call, it may be made again."""
        fields = {
            "purpose": "batch",
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": str(UPLOAD_KEPT_SECONDS),
        }
        file = (f"roundtrip-{name}.jsonl", content, "application/jsonl")
        try:
            said = self._caller.document(Call.START, "POST", "/v1/files", data=fields, files={"file": file})
            return job_id(said.get("id"))
        except (OutcomeUnknown, BadAnswer) as error:
            words = f"The upload of the batch's requests was not confirmed; no batch was made of it. {error.detail}"
            raise ProviderUnavailable(words, error.retry_after) from None

    def _forget(self, file_id: str) -> None:
        with suppress(ProviderError):  # it expires by itself
            self._caller.answer(Call.CANCEL, "DELETE", f"/v1/files/{quote(file_id, safe='')}")

    def status(self, job: JobRef) -> ProviderUpdate:
        return replace(batch_payloads.update(self._batch(job, Call.POLL)), item_key=job.item_key)

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        """A call for each batch, whatever number of items; references are looked for in the newest batches."""
        found: list[ListedJob] = []
        said: dict[str, ProviderUpdate | None] = {}
        for job in jobs:
            if job.job_id not in said:
                said[job.job_id] = self._update_or_none(job)
            if (update := said[job.job_id]) is not None:
                found.append(ListedJob("", replace(update, item_key=job.item_key), job.job_id))
        wanted = list(references)
        if wanted or since is not None:
            for batch in self._newest(since):
                found += batch_payloads.listed(batch, wanted, with_all=since is not None)
        return found

    def _update_or_none(self, job: JobRef) -> ProviderUpdate | None:
        try:
            return batch_payloads.update(self._batch(job, Call.POLL))
        except NotThere:
            return None

    def _newest(self, since: datetime | None) -> Iterator[Mapping[str, Any]]:
        after: dict[str, str] = {}
        for _ in range(MAX_PAGES):
            said = self._caller.document(Call.POLL, "GET", "/v1/batches", params={"limit": str(PAGE), **after})
            page = said.get("data")
            if not isinstance(page, list):
                raise BadAnswer("The provider's answer has no list of batches.")
            batches = [batch for batch in page if isinstance(batch, Mapping)]
            yield from batches
            oldest = payloads.moment(batches[-1].get("created_at")) if batches else None
            if not said.get("has_more") or oldest is None or (since is not None and oldest < since):
                return
            after = {"after": job_id(batches[-1].get("id"))}

    def results(self, job: JobRef) -> Iterator[tuple[str, Result | ProviderError]]:
        """The lines of both files; an item in neither of them was never carried out, and its absence says so."""
        batch = self._batch(job, Call.RESULT)
        update = batch_payloads.update(batch)
        files = batch_payloads.files(batch)
        if not files and update.status not in batch_payloads.ENDS:
            raise NotThere(f"The batch is {update.raw_status}.")
        if not files:
            raise Gone(f"The batch is {update.raw_status} and has no results. {update.error_text}".strip())
        for file_id in files:
            with self._caller.lines(f"/v1/files/{quote(file_id, safe='')}/content") as lines:
                for line, is_whole in lines:
                    yield batch_payloads.item(line, is_whole, job.kind)

    def result(self, job: JobRef) -> Result:
        for item_key, found in self.results(job):
            if item_key == job.item_key or not job.item_key:
                if isinstance(found, ProviderError):
                    raise found
                return found
        raise Gone("The batch ended before this item was carried out: it is in neither of its files.")

    def cancel(self, job: JobRef) -> ProviderUpdate:
        """Cancels the whole batch; so for one item of several nothing is asked, and its status is the answer."""
        batch = self._batch(job, Call.CANCEL)
        update = batch_payloads.update(batch)
        if update.status not in batch_payloads.ENDS and not (job.item_key and batch_payloads.item_count(batch) > 1):
            with suppress(ProviderRejected):  # it ended meanwhile
                update = batch_payloads.update(
                    self._caller.document(Call.CANCEL, "POST", f"/v1/batches/{quote(job.job_id, safe='')}/cancel")
                )
        return replace(update, item_key=job.item_key)

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)

    def _batch(self, job: JobRef, purpose: Call) -> Mapping[str, Any]:
        method = Call.POLL if purpose == Call.CANCEL else purpose
        return self._caller.document(method, "GET", f"/v1/batches/{quote(job.job_id, safe='')}")


def _line(kind: str, job: NewJob, options: Mapping[str, Any]) -> str:
    line = {
        "custom_id": job.reference,
        "method": "POST",
        "url": "/v1/responses",
        "body": request(kind, job.input, options),
    }
    return json.dumps(line, ensure_ascii=False) + "\n"
