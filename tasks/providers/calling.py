"""Half of an adapter: calls over the guarded session, what their answers mean, their JSON, and lists to their end.

An adapter that derives from `CallingProvider` says where its API lies, how it shows its key and how it words an error;
what a status code means is `tasks.providers.answers`. Nothing here follows a URL out of an answer.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

import requests  # noqa: TID251 - its types; the session is the guarded one

from kernel import clock
from kernel.network.http import MAX_BODY_BYTES, CallFailed, provider_session
from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers import answers
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    AnswerTooLarge,
    BadAnswer,
    JobRef,
    ListedJob,
    NotThere,
    Provider,
    ProviderCall,
    ProviderDenied,
    ProviderError,
    ProviderUpdate,
    Unparseable,
)

CALL_SECONDS = 20.0
MAX_PAGES = 1000  # of one listing
MAX_RESULT_BYTES = MAX_BODY_BYTES  # of one result, whether it comes in one piece or in pages
FEW = 10  # so many jobs are asked about one by one; more are looked for in the listing
MAX_WORDS = 300
Answer = requests.Response
Page = TypeVar("Page")
Read = TypeVar("Read")


class CallingProvider(Provider):
    """`call_seconds`: the longest a call may take, through its last byte."""

    nothing_done: ClassVar[frozenset[int]] = frozenset()  # codes of which the provider promises that for a start
    names_a_place: ClassVar[bool] = False  # a start's 404 speaks of what our options name, and of no task's input

    def __init__(self, account: Account, *, call_seconds: float | None = None) -> None:
        super().__init__(account)
        self._seconds = call_seconds or CALL_SECONDS
        self._local = threading.local()

    # what an adapter may say otherwise

    def credentials(self) -> dict[str, str]:
        """The headers that show who we are."""
        return {"authorization": f"Bearer {self.account.api_key}"}

    def refusal(self, said: Any) -> tuple[str, str]:
        """A stable code and the words of an error's parsed body; ("", "") where it says neither."""
        error = said.get("error") if isinstance(said, Mapping) else None
        if not isinstance(error, Mapping):
            return "", ""
        return str(error.get("code") or error.get("type") or ""), str(error.get("message") or "")

    def meaning_of(self, code: str, purpose: Call, words: str) -> ProviderError | None:
        """The error where the provider's own code says more than the status; None where it does not."""
        return None

    # calls

    def document(self, purpose: Call, path: str, **request: Any) -> Mapping[str, Any]:
        """The JSON object that a call is answered with. Raises the typed error of any other answer."""
        answer = self.answer(purpose, path, **request)
        said = parsed(answer)
        if not isinstance(said, Mapping):
            raise BadAnswer("The provider's answer is not a JSON object.", raw=answer.content)
        return said

    def answer(
        self, purpose: Call, path: str, *, call: ProviderCall | None = None, method: str = "", **request: Any
    ) -> Answer:
        """The answer, if it is a good one; else the typed error that it stands for."""
        headers = {**_travelling(call), **request.pop("headers", {})}
        method = method or ("POST" if purpose in (Call.START, Call.CANCEL) else "GET")
        try:
            answer = self._session().request(method, self.address(path), headers=headers, **request)
        except CallFailed as error:
            raise answers.failed(error, purpose) from error
        if problem := self._problem(answer, purpose):
            raise problem
        return answer

    def address(self, path: str) -> str:
        return self.base_url + path

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = provider_session(
                allowed_networks=self.account.networks,
                total_seconds=self._seconds,
                headers={**self.credentials(), "accept": "application/json"},
            )
        return session

    def _problem(self, answer: Answer, purpose: Call) -> ProviderError | None:
        if 200 <= answer.status_code < 300 and answer.status_code not in (202, 204):
            return None  # its body is read once, by whoever asked
        code, message = self._said(answer)
        words = self._without_secrets(_worded(answer.status_code, code, message))
        if found := self.meaning_of(code, purpose, words):
            return found
        if self.names_a_place and purpose == Call.START and answer.status_code == 404:
            return ProviderDenied(f"{words} Correct what the options of the account or the kind name.")
        return answers.error_for(
            answer.status_code,
            purpose,
            words,
            headers=answer.headers,
            now=clock.now(),
            nothing_done=self.nothing_done,
        )

    def _said(self, answer: Answer) -> tuple[str, str]:
        try:
            code, message = self.refusal(tolerant_loads(answer.content))
        except HostileJSON:
            return "", ""
        return code[:60], message[:MAX_WORDS]

    def _without_secrets(self, words: str) -> str:
        """Some providers repeat the key that they refuse."""
        for secret in (self.account.api_key, *self.account.secrets):
            words = words.replace(secret, "…") if secret else words
        return words

    # many jobs

    def listed(self, jobs: Iterable[JobRef], newest_first: Iterator[list[ProviderUpdate]]) -> list[ListedJob]:
        """Few jobs are asked about one by one; of many the listing tells most, and who is not in it is asked for."""
        wanted = {job.job_id: job for job in jobs}
        found: dict[str, ProviderUpdate] = {}
        if len(wanted) > FEW:
            for page in newest_first:
                found.update({update.job_id: update for update in page if update.job_id in wanted})
                if len(found) == len(wanted):
                    break
        for job_id in wanted.keys() - found.keys():
            with suppress(NotThere):
                found[job_id] = self._asked(wanted[job_id])
        return [ListedJob("", found[job_id]) for job_id in wanted if job_id in found]

    def _asked(self, job: JobRef) -> ProviderUpdate:
        """`status`; what cannot be read of one job is that job's own problem, and keeps no other from its news."""
        try:
            return self.status(job)
        except BadAnswer as error:
            return ProviderUpdate(job.job_id, problem=error.detail)


def _worded(status: int, code: str, message: str) -> str:
    if not (code or message):
        return f"The provider answered {status}."
    said = f"{status} {code}".rstrip()
    return f"{said}: {message}" if message else f"The provider answered {said}."


def _travelling(call: ProviderCall | None) -> dict[str, str]:
    """What goes along with a start call, whoever the provider is."""
    if call is None:
        return {}
    return {**({"x-correlation-id": call.correlation_id} if call.correlation_id else {}), **call.headers}


def parsed(answer: Answer) -> Any:
    """An answer's JSON, for reading words out of it. Raises BadAnswer with the bytes."""
    try:
        return tolerant_loads(answer.content)
    except HostileJSON as error:
        raise BadAnswer(f"The provider's answer cannot be used: {error}.", raw=answer.content) from None


def understood(read: Callable[[Any], Read], said: Any) -> Read:
    """What a payload's reader makes of an answer. Raises BadAnswer where that is no answer of this provider's."""
    try:
        return read(said)
    except Unparseable as error:
        raise BadAnswer(f"The provider's answer cannot be used: {error}.") from None


def all_pages(fetch: Callable[[str], tuple[Page, str]], most: int = MAX_PAGES) -> Iterator[Page]:
    """Every page of a list, by `fetch(cursor)` → page and next cursor (empty: the end).

    Raises BadAnswer for a list that has no end: the same cursor again, or ever new ones.
    """
    cursor = ""
    seen: set[str] = set()
    while True:
        page, cursor = fetch(cursor)
        yield page
        if not cursor:
            return
        if cursor in seen or len(seen) >= most:
            raise BadAnswer("The provider's listing does not end: it gives the same or ever new cursors.")
        seen.add(cursor)


def within_limit(size: int) -> None:
    """Raises AnswerTooLarge where the pages of one result together are more than we take."""
    if size > MAX_RESULT_BYTES:
        raise AnswerTooLarge(f"All pages of the result are larger than the {MAX_RESULT_BYTES:,} bytes we take.")


def part(value: str) -> str:
    """A stranger's id or name as one part of a path, so that it can lead nowhere else."""
    if value in ("", ".", ".."):
        raise NotThere("There is no such job: its id is no id.")
    return quote(value, safe="~")
