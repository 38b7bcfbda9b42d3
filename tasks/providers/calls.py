"""Calls of an adapter whose provider speaks JSON: a guarded session for each thread, answers as typed errors.

An adapter says how its provider words a refusal, and which of those words mean that a person has to act.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests  # noqa: TID251 - its types; the session is the guarded one

from kernel import clock
from kernel.network.http import CallFailed, ProviderSession, provider_session
from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers import answers, lines
from tasks.providers.answers import Call
from tasks.providers.base import Account, BadAnswer, ProviderDenied, ProviderError, ProviderThrottled

CALL_SECONDS = 20.0
STREAM_SECONDS = 75.0  # below the lease of a fetch
MAX_STREAM_BYTES = 512 * 1024 * 1024
REFUSAL_BYTES = 64 * 1024  # of a body that says no


@dataclass(frozen=True, slots=True)
class Said:
    """What a refusal says: the provider's code and its sentence."""

    code: str = ""
    message: str = ""


class Caller:
    """Speaks for one account. `refusal` reads a body that says no; `denied` are codes that a person has to mend."""

    def __init__(
        self,
        account: Account,
        base_url: str,
        headers: Mapping[str, str],
        *,
        refusal: Callable[[Any], Said],
        denied: frozenset[str] = frozenset(),
        seconds: float | None = None,
    ) -> None:
        self._account = account
        self._base_url = base_url
        self._headers = {"accept": "application/json", **headers}
        self._refusal = refusal
        self._denied = denied
        self._seconds = seconds or CALL_SECONDS
        self._local = threading.local()

    def answer(self, purpose: Call, method: str, path: str, **request: Any) -> requests.Response:
        """The answer, if it is a good one; else the typed error that it stands for."""
        try:
            answer = self._session().request(method, self._base_url + path, **request)
        except CallFailed as error:
            raise answers.failed(error, purpose) from error
        if problem := self._problem(answer.status_code, answer.headers, answer.content, purpose):
            raise problem
        return answer

    def document(self, purpose: Call, method: str, path: str, **request: Any) -> Mapping[str, Any]:
        """The answer's JSON object. Raises BadAnswer where it is none."""
        return document(self.answer(purpose, method, path, **request).content)

    @contextmanager
    def lines(self, path: str) -> Iterator[Iterator[tuple[bytes, bool]]]:
        """The lines of a long answer, as `lines.of` gives them."""
        try:
            with self._session().streamed(
                "GET", self._base_url + path, total_seconds=STREAM_SECONDS, max_body_bytes=MAX_STREAM_BYTES
            ) as (answer, pieces):
                if not 200 <= answer.status_code < 300:
                    body = next(pieces, b"")[:REFUSAL_BYTES]
                    problem = self._problem(answer.status_code, answer.headers, body, Call.RESULT)
                    raise problem or BadAnswer(f"The provider answered {answer.status_code}.")
                yield lines.of(pieces)
        except CallFailed as error:
            raise answers.failed(error, Call.RESULT) from error

    def _problem(self, status: int, headers: Mapping[str, str], body: bytes, purpose: Call) -> ProviderError | None:
        if 200 <= status < 300:
            return None
        said = self._said(body)
        words = f"{status} {said.code}: {said.message}" if said.message else f"The provider answered {status}."
        words = words.replace(self._account.api_key, "…") if self._account.api_key else words
        if said.code in self._denied:
            return ProviderDenied(words[:500])
        error = answers.error_for(status, purpose, words[:500], headers=headers, now=clock.now())
        if isinstance(error, ProviderThrottled) and error.retry_after is None:
            error.retry_after = _milliseconds(headers.get("retry-after-ms", ""))
        return error

    def _said(self, body: bytes) -> Said:
        try:
            said = self._refusal(tolerant_loads(body))
        except (HostileJSON, KeyError, TypeError, AttributeError):
            return Said()
        return Said(said.code[:60], said.message[:400])

    def _session(self) -> ProviderSession:
        session: ProviderSession | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = provider_session(
                allowed_networks=self._account.networks, total_seconds=self._seconds, headers=self._headers
            )
        return session


def document(body: bytes) -> Mapping[str, Any]:
    try:
        said = tolerant_loads(body)
    except HostileJSON as error:
        raise BadAnswer(f"The provider's answer cannot be used: {error}.") from None
    if not isinstance(said, Mapping):
        raise BadAnswer("The provider's answer is not a JSON object.")
    return said


def text(value: Any, most: int) -> str:
    """A text of the provider's, cut; "" where it gave none."""
    return value[:most] if isinstance(value, str) else ""


def job_id(value: Any) -> str:
    """An id that we can store and ask for again. Raises BadAnswer."""
    if isinstance(value, str) and 1 <= len(value) <= 200 and value.isprintable():
        return value
    raise BadAnswer("The provider's answer has no job id of 1 to 200 characters.")


def _milliseconds(value: str) -> float | None:
    """OpenAI's `retry-after-ms`, in seconds."""
    return float(math.ceil(int(value) / 1000)) if value.isascii() and value.isdigit() and len(value) < 10 else None
