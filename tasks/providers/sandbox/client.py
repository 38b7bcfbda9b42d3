"""The sandbox's API, over the guarded session. A 500 of this provider means that nothing was done, as it documents."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

import requests  # noqa: TID251 - its types; the session is the guarded one
from django.conf import settings

from kernel import clock
from kernel.network.http import CallFailed, provider_session
from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers import answers, results
from tasks.providers.answers import Call
from tasks.providers.base import (
    BadAnswer,
    Gone,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderUpdate,
    StartedJob,
    Unparseable,
)
from tasks.providers.sandbox import payloads

CALL_SECONDS = 20.0
IDS_PER_CALL = 100  # keeps the listing's URL under 4 KB
PAGE = 1000
MAX_PAGES = 1000
_NO_RESULT = frozenset({"job_failed", "job_cancelled"})
_NOTHING_DONE = frozenset({500})  # what the sandbox promises; the codes of others say nothing of it


class SandboxProvider(Provider):
    name = "sandbox"
    scheme = "standard_webhooks"
    kinds = frozenset({"map_search", "email_generation", "scoring"})
    max_batch = 1000

    def __init__(self, base_url: str, key: str, webhook_secret: str, *, call_seconds: float = CALL_SECONDS) -> None:
        self._base = base_url.rstrip("/")
        self._key = key
        self._secret = webhook_secret
        self._seconds = call_seconds
        self._local = threading.local()

    @classmethod
    def from_settings(cls) -> "SandboxProvider":
        """The configured one: the same object while the settings stay, so that its connections are reused."""
        wanted = (settings.SANDBOX_PROVIDER_URL, settings.SANDBOX_PROVIDER_KEY, settings.SANDBOX_WEBHOOK_SECRET)
        if _configured.get("by") != wanted:
            _configured.update(by=wanted, provider=cls(*wanted))
        provider: SandboxProvider = _configured["provider"]
        return provider

    def secrets(self) -> list[str]:
        return [self._secret] if self._secret else []

    def missing_credentials(self) -> str:
        return "" if self._key else "SANDBOX_PROVIDER_KEY"

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        body = {"input": dict(job.input), "reference": job.reference}
        said = self._call(Call.START, f"/v1/{kind}/jobs", call=call, json=_with_callback(body, call))
        begun = payloads.started({**said, "reference": job.reference}, "")
        if begun is None:
            raise BadAnswer("The provider's answer has no job_id of 1 to 200 characters.")
        return begun

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        body = {"jobs": [{"input": dict(job.input), "reference": job.reference} for job in jobs]}
        said = self._call(Call.START, f"/v1/{kind}/batches", call=call, json=_with_callback(body, call))
        batch_id = str(said.get("batch_id") or "")[:200]
        begun = [payloads.started(job, batch_id) for job in _jobs(said)]
        return [job for job in begun if job is not None]

    def status(self, job_id: str) -> ProviderUpdate:
        return _read(payloads.update, self._call(Call.POLL, f"/v1/jobs/{quote(job_id, safe='')}"))

    def list_jobs(
        self, *, job_ids: Iterable[str] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        found: list[ListedJob] = []
        job_ids = list(job_ids)
        for name, values in (("ids", job_ids), ("reference", list(references))):
            plain = [value for value in values if "," not in value]
            for start in range(0, len(plain), IDS_PER_CALL):
                part = plain[start : start + IDS_PER_CALL]
                found += self._pages({name: ",".join(part)}, asked=len(part))
        found += self._singly([job_id for job_id in job_ids if "," in job_id])
        if since is not None:
            found += self._pages({"since": since.isoformat()})
        return found

    def result(self, job_id: str, item_key: str = "") -> Any:
        answer = self._answer(Call.RESULT, f"/v1/jobs/{quote(job_id, safe='')}/result")
        found = results.read(answer.content)
        if not isinstance(found.value, Mapping):
            raise BadAnswer("The result cannot be used: it is not a JSON object.", raw=answer.content)
        return found

    def cancel(self, job_id: str) -> ProviderUpdate:
        return _read(payloads.update, self._call(Call.CANCEL, f"/v1/jobs/{quote(job_id, safe='')}/cancel"))

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)

    def _singly(self, job_ids: Sequence[str]) -> list[ListedJob]:
        """Ids with a comma, which a list with commas would tear apart."""
        found = []
        for job_id in job_ids:
            with suppress(NotThere):
                found.append(ListedJob("", self.status(job_id)))
        return found

    def _pages(self, query: dict[str, str], asked: int | None = None) -> list[ListedJob]:
        """All pages of a listing; of `asked` jobs no more than those. Raises BadAnswer for one that does not end."""
        found: list[ListedJob] = []
        cursor = ""
        seen: set[str] = set()
        while True:
            more = {"cursor": cursor} if cursor else {}
            said = self._call(Call.POLL, "/v1/jobs", params={**query, **more, "limit": str(PAGE)})
            found += [payloads.listed(job) for job in _jobs(said)]
            cursor = str(said.get("next_cursor") or "")
            if not cursor or (asked is not None and len({job.update.job_id for job in found}) >= asked):
                return found
            if cursor in seen or len(seen) >= MAX_PAGES:
                raise BadAnswer("The provider's listing does not end: it gives the same or ever new cursors.")
            seen.add(cursor)

    def _call(self, purpose: Call, path: str, **request: Any) -> Any:
        return _document(self._answer(purpose, path, **request))

    def _answer(
        self, purpose: Call, path: str, *, call: ProviderCall | None = None, **request: Any
    ) -> requests.Response:
        """The answer, if it is a good one; else the typed error that it stands for."""
        headers = {"x-correlation-id": call.correlation_id, **call.headers} if call and call.correlation_id else {}
        method = "POST" if purpose in (Call.START, Call.CANCEL) else "GET"
        try:
            answer = self._session().request(method, self._base + path, headers=headers, **request)
        except CallFailed as error:
            raise answers.failed(error, purpose) from error
        if problem := _problem(answer, purpose):
            raise problem
        return answer

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = provider_session(
                allowed_networks=tuple(settings.PROVIDER_ALLOWED_NETWORKS),
                total_seconds=self._seconds,
                headers={"authorization": f"Bearer {self._key}", "accept": "application/json"},
            )
        return session


_configured: dict[str, Any] = {}


def _with_callback(body: dict[str, Any], call: ProviderCall) -> dict[str, Any]:
    return {**body, "webhook_url": call.webhook_url} if call.webhook_url else body


def _problem(answer: requests.Response, purpose: Call) -> ProviderError | None:
    if 200 <= answer.status_code < 300 and answer.status_code not in (202, 204):
        return None  # its body is read once, by whoever asked
    code, message = _refusal(answer)
    words = f"{answer.status_code} {code}: {message}" if code else f"The provider answered {answer.status_code}."
    if purpose == Call.RESULT and code in _NO_RESULT:
        return Gone(words)
    return answers.error_for(
        answer.status_code,
        purpose,
        words,
        headers=answer.headers,
        now=clock.now(),
        nothing_done=_NOTHING_DONE,
    )


def _document(answer: requests.Response) -> Any:
    try:
        said = tolerant_loads(answer.content)
    except HostileJSON as error:
        raise BadAnswer(f"The provider's answer cannot be used: {error}.") from None
    if not isinstance(said, Mapping):
        raise BadAnswer("The provider's answer is not a JSON object.")
    return said


def _refusal(answer: requests.Response) -> tuple[str, str]:
    try:
        error = tolerant_loads(answer.content)["error"]
        return str(error["code"])[:60], str(error["message"])[:300]
    except (HostileJSON, KeyError, TypeError):
        return "", ""


def _jobs(said: Mapping[str, Any]) -> list[Any]:
    jobs = said.get("jobs")
    if not isinstance(jobs, list):
        raise BadAnswer("The provider's answer has no list of jobs.")
    return jobs


def _read(parse: Any, said: Any) -> Any:
    try:
        return parse(said)
    except Unparseable as error:
        raise BadAnswer(f"The provider's answer cannot be used: {error}.") from None
