"""The adapter of one job provider: how a job starts, how it is asked for, and what its webhook says.

Roundtrip finds this file by its name in every app of ROUNDTRIP_APPS. An account (key, address) is a row that an
operator makes; the adapter is made with it and knows nothing else of Roundtrip.

The provider here: POST /jobs → {"id", "status"}; GET /jobs/<id>; GET /jobs?reference=…; POST /jobs/<id>/cancel; GET
/jobs/<id>/result. Its webhook is {"id", "status"}, signed with HMAC-SHA256 of the body.
"""

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from kernel import clock
from kernel.network.http import CallFailed, provider_session
from kernel.parsing import REPLACED, HostileJSON, tolerant_loads
from tasks.providers import answers, register, results
from tasks.providers.answers import Call
from tasks.providers.base import (
    BadAnswer,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderUpdate,
    StartedJob,
    Unparseable,
)
from tasks.states import JobStatus

# Every status that the provider documents. What is not here becomes `unknown`: shown, and never guessed to be an end.
STATUSES = {
    "waiting": JobStatus.QUEUED,
    "working": JobStatus.RUNNING,
    "done": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "stopped": JobStatus.CANCELLED,
}


@register
class CourierProvider(Provider):
    adapter = "courier"  # in rows, URLs and commands: it stays
    title = "Courier"
    scheme = "hmac_sha256_hex"  # one of webhooks/schemes: how its webhooks are signed
    takes_base_url = True
    option_words = {"service": "Which of its services: standard or fragile."}
    environment = {"base_url": "COURIER_URL", "api_key": "COURIER_KEY", "webhook_secret": "COURIER_WEBHOOK_SECRET"}

    def __init__(self, account: Any) -> None:
        super().__init__(account)
        self._local = threading.local()  # it is called from several threads at once

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        body = {"input": dict(job.input), "reference": job.reference, **call.options}
        if call.webhook_url:
            body["webhook_url"] = call.webhook_url
        return StartedJob(job.reference, _update(self._ask(Call.START, "/jobs", json=body)).job_id)

    def status(self, job: JobRef) -> ProviderUpdate:
        return _update(self._ask(Call.POLL, _path(job)))

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        """By id one by one, as the port does it; by our reference, which finds a start whose answer never came."""
        found = super().list_jobs(jobs=jobs)
        for reference in references:
            with suppress(NotThere):
                said = self._ask(Call.POLL, "/jobs", params={"reference": reference})
                found.append(ListedJob(reference, _update(said)))
        return found

    def result(self, job: JobRef) -> Any:
        return results.read(self._call(Call.RESULT, f"{_path(job)}/result").content)

    def cancel(self, job: JobRef) -> ProviderUpdate:
        return _update(self._ask(Call.CANCEL, f"{_path(job)}/cancel"))

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        """A webhook whose signature was right; still a stranger's text."""
        try:
            return ParsedCallback([_read(tolerant_loads(body))])
        except HostileJSON as error:
            raise Unparseable(str(error)) from None

    def _ask(self, purpose: Call, path: str, **request: Any) -> Any:
        try:
            return tolerant_loads(self._call(purpose, path, **request).content)
        except HostileJSON as error:
            raise BadAnswer(f"The provider's answer cannot be used: {error}.") from None

    def _call(self, purpose: Call, path: str, **request: Any) -> Any:
        """The answer, if it is a good one; else the typed error that its status code stands for."""
        method = "POST" if purpose in (Call.START, Call.CANCEL) else "GET"
        try:
            answer = self._session().request(method, self.base_url + path, **request)
        except CallFailed as error:
            raise answers.failed(error, purpose) from error
        words = f"Courier answered {answer.status_code}."
        wrong = answers.error_for(answer.status_code, purpose, words, headers=answer.headers, now=clock.now())
        if wrong is not None:
            raise wrong
        return answer

    def _session(self) -> Any:
        if not hasattr(self._local, "session"):
            self._local.session = provider_session(
                allowed_networks=self.account.networks,
                total_seconds=20.0,
                headers={"authorization": f"Bearer {self.account.api_key}"},
            )
        return self._local.session


def _path(job: JobRef) -> str:
    return f"/jobs/{quote(job.job_id, safe='')}"


def _update(said: Any) -> ProviderUpdate:
    try:
        return _read(said)
    except Unparseable as error:
        raise BadAnswer(f"The provider's answer cannot be used: {error}.") from None


def _read(said: Any) -> ProviderUpdate:
    """One job, as its answers and its webhook write it. Raises Unparseable."""
    job_id, status = (said.get("id"), said.get("status")) if isinstance(said, Mapping) else (None, None)
    if not isinstance(job_id, str) or not 1 <= len(job_id) <= 200 or REPLACED in job_id:
        raise Unparseable("it has no id of 1 to 200 characters")
    if not isinstance(status, str) or not status:
        raise Unparseable("it has no status")
    text = str(said.get("error") or "")[:2000]
    return ProviderUpdate(job_id, "", STATUSES.get(status, JobStatus.UNKNOWN), status[:60], error_text=text)
