"""The port that every job provider's adapter fills: start, status, list, result, cancel, parse.

An adapter knows its provider wholly and nothing else: no model, no transaction, no setting but its own. It speaks
HTTP through `kernel.network.http` only, is called outside of transactions and from several threads at once, and raises
nothing but the errors below. `webhooks` verifies by the name of its `scheme`, so no adapter checks a signature.

ProviderError ─┬─ ProviderRejected     understood and refused for good
               ├─ ProviderDenied       our account is not served: a person has to act
               ├─ ProviderThrottled    too many calls
               ├─ ProviderUnavailable  certainly nothing was done, or asking again does no harm
               ├─ OutcomeUnknown       a start that may have been obeyed
               ├─ NotThere             no such job, or not ready yet
               │    └─ Gone            there no longer, and never again
               ├─ BadAnswer            an answer that cannot be read or stored; `raw` is what came
               └─ AnswerTooLarge       more than we take

Which status code is which of these is `tasks.providers.answers`; how a result is read, `tasks.providers.results`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tasks.states import JobStatus

NO_JOB = "roundtrip-doctor"  # no provider gives such an id


class ProviderError(Exception):
    """`code` is a stable word for logs and tasks; the text never holds a URL, a key or a body.

    `retry_after` is what the provider says about when to come back, in seconds; None where it says nothing.
    """

    code = "provider_error"

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after


class ProviderRejected(ProviderError):
    code = "rejected_by_provider"


class ProviderDenied(ProviderError):
    code = "provider_denied"


class ProviderThrottled(ProviderError):
    code = "provider_throttled"


class ProviderUnavailable(ProviderError):
    code = "provider_unavailable"


class OutcomeUnknown(ProviderError):
    code = "outcome_unknown"


class NotThere(ProviderError):
    code = "not_there"


class Gone(NotThere):
    code = "gone"


class BadAnswer(ProviderError):
    """`raw` is the body as it came, where there is one: a result that cannot be read is kept for the operator."""

    code = "bad_answer"

    def __init__(self, detail: str, retry_after: float | None = None, *, raw: bytes | None = None) -> None:
        super().__init__(detail, retry_after)
        self.raw = raw


class AnswerTooLarge(ProviderError):
    code = "answer_too_large"


class Unparseable(ValueError):
    """A callback's body is not this provider's; answered 400."""


@dataclass(frozen=True, slots=True)
class ProviderUpdate:
    """What a provider says of one job, in our words. Webhook, poll and cancel all end in this.

    An entry that cannot be read among others is one too, with its `problem`: it must not take the others down.
    """

    job_id: str
    item_key: str = ""
    status: JobStatus = JobStatus.UNKNOWN
    raw_status: str = ""
    progress: int | None = None  # 0 to 100
    error_code: str = ""
    error_text: str = ""
    happened_at: datetime | None = None  # by the provider's clock, where it says
    problem: str = ""  # why this entry cannot be read, in words; its job_id is empty where even that cannot


@dataclass(frozen=True, slots=True)
class ParsedCallback:
    """One webhook's content. `unknown_event` holds the event's type where the adapter does not know it."""

    updates: Sequence[ProviderUpdate] = ()
    batch_id: str = ""
    unknown_event: str = ""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to start. `reference` is our start token: the provider keeps it, so an orphaned start can be found."""

    reference: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StartedJob:
    reference: str
    job_id: str
    batch_id: str = ""
    item_key: str = ""


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job as a listing shows it."""

    reference: str
    update: ProviderUpdate
    batch_id: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A job's result as JSON that can be stored. `note` says in words what had to be replaced; `raw` is what came."""

    value: Any
    raw: bytes | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """What goes with a start call: where to call back (empty: nowhere, the poll finishes) and the journey's id."""

    webhook_url: str = ""
    correlation_id: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class Provider(ABC):
    """One account at one job provider."""

    name: str
    scheme: str = "standard_webhooks"  # the name of the signature scheme in `webhooks`
    kinds: frozenset[str] = frozenset()
    max_batch: int = 1  # most jobs in one start call; 1: it has no batch start
    finds_references: bool = True  # `list_jobs(references=…)` works, so orphaned starts can be adopted
    kept_headers: tuple[
        str, ...
    ] = ()  # of its webhooks, what `parse` reads beside the usual; lower case, no credentials

    @abstractmethod
    def secrets(self) -> list[str]:
        """Secrets its webhooks are signed with: the current one first, then those still accepted.

        None, or any error: they cannot be had just now, and the provider is asked to send its webhook again.
        """

    @abstractmethod
    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        """Start one job."""

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        """Start up to `max_batch` jobs in one call; none is started if it raises ProviderRejected."""
        raise NotImplementedError(f"{self.name} starts jobs one by one")

    @abstractmethod
    def status(self, job_id: str) -> ProviderUpdate:
        """Ask about one job. Raises NotThere."""

    def list_jobs(
        self, *, job_ids: Iterable[str] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        """Ask about many jobs in few calls; what the provider does not know is absent from the answer."""
        found = []
        for job_id in job_ids:
            try:
                found.append(ListedJob("", self.status(job_id)))
            except NotThere:
                continue
        return found

    def missing_credentials(self) -> str:
        """The variable without which it cannot be asked anything, where that is empty; else ""."""
        return ""

    def greet(self) -> None:
        """One harmless call with our credentials, for `manage.py doctor`: after a job that is not there, unless the
        provider has something cheaper. Raises what `status` does, but for NotThere, which is an answer."""
        with suppress(NotThere):
            self.status(NO_JOB)

    @abstractmethod
    def result(self, job_id: str, item_key: str = "") -> Any:
        """Fetch a finished job's result from our base URL and the job id: a `Result`, or the bare JSON value.

        Raises NotThere while it is not there, Gone where it never will be, BadAnswer with what came instead.
        """

    @abstractmethod
    def cancel(self, job_id: str) -> ProviderUpdate:
        """Ask to cancel; returns what the provider says then: it may say that the job is finished."""

    @abstractmethod
    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        """Read a verified callback. Raises Unparseable; a status word it does not know becomes `unknown`."""
