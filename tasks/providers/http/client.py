"""Any HTTP service: started by a POST to the account's address, calls back by our scheme, and may be asked by a GET.

The start is `{kind, reference, input, callback_url}` with our reference as idempotency key. A service that answers with
no id of its own is known by that reference. Its result comes with the callback, or by a GET.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from tasks.providers import mapping, results
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    BadAnswer,
    Gone,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    ProviderCall,
    ProviderDenied,
    ProviderUnavailable,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calling import CallingProvider, parsed, part, understood
from tasks.providers.http import payloads
from tasks.states import JobStatus

SIGNATURES = {"standard_webhooks": "standard_webhooks", "bearer": "shared_token"}
JOB = "{job_id}"
ADDRESSES = ("status_url", "result_url", "cancel_url")
NOT_ASKED = "The service cannot be asked: the account's options have no status_url."
ADDRESS = "its address"
NO_ADDRESS = "The account has no address: set its base URL to where a job is started by POST."


class HttpProvider(CallingProvider):
    adapter = "http"
    title = "n8n or any HTTP service"
    carries_reference = True
    brings_results = True
    names_a_place = True
    takes_base_url = True
    needs_api_key = False
    option_words = {
        "signature": "How it shows that a callback is its own: standard_webhooks (the usual), or bearer.",
        "status_url": "Where a job's status is asked for, with {job_id} in it; without one, callbacks alone tell.",
        "result_url": "Where a job's result lies, with {job_id} in it; without one it comes with the callback, or "
        "with the status.",
        "cancel_url": "Where a job is cancelled by POST, with {job_id} in it.",
        "key_header": "The header that carries the API key as it is; without one it is Authorization: Bearer.",
        "reference_is_id": "true where the service takes our reference as its job's id: starts without an answer are "
        "then found by the status_url.",
        "input": "What is sent as input, as a template; without one, the task's input as it is.",
    }

    def __init__(self, account: Account, *, call_seconds: float | None = None) -> None:
        super().__init__(account, call_seconds=call_seconds)
        options = account.options
        self.scheme = SIGNATURES.get(str(options.get("signature") or "standard_webhooks"), "unknown")
        self.can_be_asked = bool(options.get("status_url"))
        self.finds_references = self.can_be_asked and options.get("reference_is_id") is True

    def credentials(self) -> dict[str, str]:
        named = self.account.options.get("key_header")
        if not self.account.api_key:
            return {}
        return {str(named): self.account.api_key} if named else super().credentials()

    def address(self, path: str) -> str:
        """Whole addresses, from the account: the service is at one of them, and under none of ours."""
        return path

    def lacks(self, kind: str, options: Mapping[str, Any]) -> str:
        if not self.account.base_url:
            return NO_ADDRESS
        if self.scheme not in SIGNATURES.values():
            return f"The account's option signature has to be one of {', '.join(SIGNATURES)}."
        wrong = [name for name in ADDRESSES if JOB not in str(self.account.options.get(name) or JOB)]
        return f"The account's option {wrong[0]} has no {JOB} in it: whose status would that be?" if wrong else ""

    def missing_credentials(self) -> str:
        if not self.account.base_url:
            return ADDRESS
        return "" if self.can_be_asked else "a status_url among its options"

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        if not self.account.base_url:
            raise ProviderDenied(NO_ADDRESS)
        given = mapping.given_input(call.options.get("input"), job.input)
        body = {"kind": kind, "reference": job.reference, "input": given, "callback_url": call.webhook_url}
        if self.finds_references:
            body["job_id"] = job.reference
        headers = {"idempotency-key": job.reference}
        answer = self.answer(Call.START, self.account.base_url, call=call, json=body, headers=headers)
        said = parsed(answer) if answer.content.strip() else None
        named = job.reference if self.finds_references else payloads.started(said, job.reference)
        return StartedJob(job.reference, named)

    def status(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self._status(Call.POLL, job))

    def _status(self, purpose: Call, job: JobRef) -> dict[str, Any]:
        said = self.document(purpose, self._where("status_url", job))
        return {"job_id": job.job_id, **said}

    def _where(self, option: str, job: JobRef) -> str:
        """The address by the account's own template; a job's id is one part of it. Raises ProviderUnavailable."""
        template = self.account.options.get(option)
        if not isinstance(template, str) or not template:
            raise ProviderUnavailable(NOT_ASKED if option == "status_url" else f"The account has no {option}.")
        return template.replace(JOB, part(job.job_id))

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        found = super().list_jobs(jobs=jobs)
        for reference in references if self.finds_references else ():
            with suppress(NotThere):
                found.append(ListedJob(reference, self.status(JobRef(reference))))
        return found

    def result(self, job: JobRef) -> Any:
        """As the callback brought it; else from where the options say that it lies, else with the status."""
        if job.brought is not None:
            return _of(results.read(job.brought))
        if self.account.options.get("result_url"):
            return results.read(self.answer(Call.RESULT, self._where("result_url", job)).content)
        if not self.can_be_asked:
            raise NotThere("The callback brought no result, and the account has no result_url and no status_url.")
        answer = self.answer(Call.RESULT, self._where("status_url", job))
        read = results.read(answer.content)
        if not isinstance(read.value, Mapping):
            raise BadAnswer("The result cannot be used: the answer is not a JSON object.", raw=answer.content)
        state = understood(payloads.update, {"job_id": job.job_id, **read.value})
        if state.status in (JobStatus.FAILED, JobStatus.CANCELLED):
            raise Gone(f"The job ended as {state.raw_status}; it has no result.")
        if state.status != JobStatus.SUCCEEDED:
            raise NotThere(f"The job is {state.raw_status}.")
        return _of(read)

    def cancel(self, job: JobRef) -> ProviderUpdate:
        """By its own address; without one nothing is cancelled there, and what it says of the job is all."""
        if not self.account.options.get("cancel_url"):
            return self.status(job)
        answer = self.answer(Call.CANCEL, self._where("cancel_url", job))
        said = parsed(answer) if answer.content.strip() else None
        if isinstance(said, Mapping) and said.get("status"):
            return understood(payloads.update, {"job_id": job.job_id, **said})
        return self.status(job)

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)


def _of(read: Result) -> Result:
    """The `result` of a callback or a status."""
    if not isinstance(read.value, Mapping) or "result" not in read.value:
        raise NotThere("There is no result in what the service says.")
    return Result(read.value["result"], read.raw, read.note)
