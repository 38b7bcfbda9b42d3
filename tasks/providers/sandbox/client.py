"""The sandbox's API. A 500 of this provider means that nothing was done, as it documents."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from tasks.providers import results
from tasks.providers.answers import Call
from tasks.providers.base import (
    BadAnswer,
    Gone,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    ProviderCall,
    ProviderError,
    ProviderUpdate,
    StartedJob,
)
from tasks.providers.calling import CallingProvider, all_pages, part, understood
from tasks.providers.sandbox import payloads

IDS_PER_CALL = 100  # keeps the listing's URL under 4 KB
PAGE = 1000
_NO_RESULT = frozenset({"job_failed", "job_cancelled"})


class SandboxProvider(CallingProvider):
    adapter = "sandbox"
    title = "Sandbox"
    scheme = "standard_webhooks"
    kinds = frozenset({"map_search", "email_generation", "scoring"})
    max_batch = 1000
    jobs_per_listing = IDS_PER_CALL
    takes_base_url = True
    nothing_done = frozenset({500})  # what the sandbox promises; the codes of others say nothing of it
    environment = {
        "base_url": "SANDBOX_PROVIDER_URL",
        "api_key": "SANDBOX_PROVIDER_KEY",
        "webhook_secret": "SANDBOX_WEBHOOK_SECRET",
    }

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        body = {"input": dict(job.input), "reference": job.reference}
        said = self.document(Call.START, f"/v1/{kind}/jobs", call=call, json=_with_callback(body, call))
        begun = payloads.started({**said, "reference": job.reference}, "")
        if begun is None:
            raise BadAnswer("The provider's answer has no job_id of 1 to 200 characters.")
        return begun

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        body = {"jobs": [{"input": dict(job.input), "reference": job.reference} for job in jobs]}
        said = self.document(Call.START, f"/v1/{kind}/batches", call=call, json=_with_callback(body, call))
        batch_id = str(said.get("batch_id") or "")[:200]
        begun = [payloads.started(job, batch_id) for job in _jobs(said)]
        return [job for job in begun if job is not None]

    def status(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self.document(Call.POLL, _path(job)))

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        found: list[ListedJob] = []
        job_ids = list(dict.fromkeys(job.job_id for job in jobs))
        for name, values in (("ids", job_ids), ("reference", list(references))):
            plain = [value for value in values if "," not in value]
            for start in range(0, len(plain), IDS_PER_CALL):
                chunk = plain[start : start + IDS_PER_CALL]
                found += self._pages({name: ",".join(chunk)}, asked=len(chunk))
        found += self._singly([job_id for job_id in job_ids if "," in job_id])
        if since is not None:
            found += self._pages({"since": since.isoformat()})
        return found

    def result(self, job: JobRef) -> Any:
        answer = self.answer(Call.RESULT, f"{_path(job)}/result")
        found = results.read(answer.content)
        if not isinstance(found.value, Mapping):
            raise BadAnswer("The result cannot be used: it is not a JSON object.", raw=answer.content)
        return found

    def cancel(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self.document(Call.CANCEL, f"{_path(job)}/cancel"))

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)

    def _singly(self, job_ids: Sequence[str]) -> list[ListedJob]:
        """Ids with a comma, which a list with commas would tear apart."""
        found = []
        for job_id in job_ids:
            with suppress(NotThere):
                found.append(ListedJob("", self.status(JobRef(job_id))))
        return found

    def _pages(self, query: dict[str, str], asked: int | None = None) -> list[ListedJob]:
        """All pages of a listing; of `asked` jobs no more than those. Raises BadAnswer for one that does not end."""

        def page(cursor: str) -> tuple[list[ListedJob], str]:
            more = {"cursor": cursor} if cursor else {}
            said = self.document(Call.POLL, "/v1/jobs", params={**query, **more, "limit": str(PAGE)})
            return [payloads.listed(job) for job in _jobs(said)], str(said.get("next_cursor") or "")

        found: list[ListedJob] = []
        for jobs in all_pages(page):
            found += jobs
            if asked is not None and len({job.update.job_id for job in found}) >= asked:
                break
        return found

    def meaning_of(self, code: str, purpose: Call, words: str) -> ProviderError | None:
        return Gone(words) if purpose == Call.RESULT and code in _NO_RESULT else None


def _path(job: JobRef) -> str:
    return f"/v1/jobs/{part(job.job_id)}"


def _with_callback(body: dict[str, Any], call: ProviderCall) -> dict[str, Any]:
    return {**body, "webhook_url": call.webhook_url} if call.webhook_url else body


def _jobs(said: Mapping[str, Any]) -> list[Any]:
    jobs = said.get("jobs")
    if not isinstance(jobs, list):
        raise BadAnswer("The provider's answer has no list of jobs.")
    return jobs
