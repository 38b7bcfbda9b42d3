"""The port that every job provider's adapter fills: start, status, list, result, cancel, parse.

An adapter knows its provider wholly and nothing else: no model, no transaction, no setting; what it needs of ours is in
the `Account` it is made with. It speaks HTTP through `kernel.network.http` only, is called outside of transactions and
from several threads at once, and raises nothing but the errors below. `webhooks` verifies by the name of its `scheme`,
so no adapter checks a signature.

ProviderError ─┬─ ProviderRejected     understood and refused for good
               ├─ ProviderDenied       our account is not served: a person has to act
               ├─ ProviderThrottled    too many calls
               ├─ ProviderUnavailable  certainly nothing was done, or asking again does no harm
               │    └─ NoAnswer        nobody there, or not within the time: nothing else is asked for a while
               ├─ OutcomeUnknown       a start that may have been obeyed
               ├─ NotThere             no such job, or not ready yet
               │    └─ Gone            there no longer, and never again
               ├─ BadAnswer            an answer that cannot be read or stored; `raw` is what came
               ├─ AnswerTooLarge       more than we take
               └─ ItemFailed           one item of a shared job came to nothing; its neighbours did not

Which status code is which of these is `tasks.providers.answers`; how a result is read, `tasks.providers.results`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

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


class NoAnswer(ProviderUnavailable):
    """The first sign of a provider that hangs."""


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


class ItemFailed(ProviderError):
    """What the provider says of an item where others have their result. `said` is its own error code."""

    code = "failed_upstream"

    def __init__(self, detail: str, *, said: str = "", is_permanent: bool = False) -> None:
        super().__init__(detail)
        self.said = said
        self.is_permanent = is_permanent


class Unparseable(ValueError):
    """A callback's body is not this provider's; answered 400."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whose key, where, and how: what one of our accounts at a provider gives to its adapter.

    `secrets` sign its webhooks, the current one first; `options` are the adapter's own (model, actor, region).
    `networks` are the private networks that its calls may go to (`kernel.network.openings`).
    """

    name: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    networks: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class JobRef:
    """One of our jobs, as its provider and we know it. `options` are those it was started with; `brought` is the
    callback that brought its result, where its adapter takes results so."""

    job_id: str
    kind: str = ""
    item_key: str = ""
    batch_id: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    brought: bytes | None = field(default=None, repr=False)


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
    reference: str = ""  # our start token, where the callback's URL or the provider's own words carry it
    means_all_items: bool = False  # said of the provider's job as a whole: of each of our tasks that share it
    is_permanent: bool = False  # of a failure: the same input would fail again, so no new job is paid for
    brought: bytes | None = field(default=None, repr=False)  # the callback itself, where it brings the result along


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
    """What goes with a start call: where to call back (empty: nowhere, the poll finishes), the journey's id, the
    options of the account and the kind together."""

    webhook_url: str = ""
    correlation_id: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class Provider(ABC):
    """One account at one job provider. Called from several threads at once."""

    adapter: ClassVar[str]  # its name in rows, URLs and commands: small letters, digits, underscores
    title: ClassVar[str] = ""
    scheme: str = "standard_webhooks"  # the name of the signature scheme in `webhooks`
    kinds: frozenset[str] = frozenset()  # what it can do; empty: whatever kind is set to it
    max_batch: int = 1  # most jobs in one start call; 1: it has no batch start
    finds_references: bool = True  # `list_jobs(references=…)` works, so orphaned starts can be adopted
    carries_reference: bool = False  # its callback URL is each job's own, so that it can say whose start it was
    brings_results: bool = False  # a callback may bring its job's result (`ProviderUpdate.brought`)
    can_be_asked: bool = True  # False: only callbacks speak of its jobs, and the poll leaves them to their deadline
    jobs_per_listing: int | None = None  # asked about in one call of `list_jobs`; None: all of them
    calls_back: bool = True  # False: only the poll learns of an end, and no silence is alarming
    has_items: bool = False  # one of its jobs may carry many of our tasks; `results` then brings them all
    result_seconds: float | None = None  # how long after its end a result can be fetched; None: for ever
    default_base_url: ClassVar[str] = ""
    takes_base_url: ClassVar[bool] = False  # whether an account may lie at another address
    needs_api_key: ClassVar[bool] = True
    needs_webhook_secret: ClassVar[bool] = True  # False where nothing is signed, or nothing calls back
    option_words: ClassVar[Mapping[str, str]] = {}  # option → what it is, for forms and documents
    # Field of an account (base_url, api_key, webhook_secret) → the variable that sets it. The first one decides whether
    # there is an account of the environment, called as the adapter is.
    environment: ClassVar[Mapping[str, str]] = {}
    # Of its webhooks, what `parse` reads beside the usual; lower case, no credentials.
    kept_headers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, account: Account) -> None:
        self.account = account

    @property
    def name(self) -> str:
        """The account's name: what stands in the rows of its jobs."""
        return self.account.name

    @property
    def base_url(self) -> str:
        return (self.account.base_url or self.default_base_url).rstrip("/")

    def does(self, kind: str) -> bool:
        """Whether work of this kind can go there."""
        return not self.kinds or kind in self.kinds

    def lacks(self, kind: str, options: Mapping[str, Any]) -> str:
        """What account and options lack for such work, and what to do, in a sentence; "" for nothing."""
        return ""

    def secrets(self) -> list[str]:
        """Secrets its webhooks are signed with: the current one first, then those still accepted.

        None, or any error: they cannot be had just now, and the provider is asked to send its webhook again.
        """
        return list(self.account.secrets)

    def renewed_secrets(self) -> list[str]:
        """What the provider says now, because no secret fits a signature; nothing where they are not the provider's to
        give. Anybody can make us ask, so an adapter asks seldom and hands out what it has in between."""
        return []

    @property
    def verify_token(self) -> str:
        """What a provider shows that asks whether an address is ours before it sends anything (`hub.verify_token`)."""
        value = self.account.options.get("verify_token")
        return value if isinstance(value, str) else ""

    @property
    def callback_networks(self) -> tuple[str, ...]:
        """From where alone its webhooks may come, beside their signature; empty: from anywhere."""
        value = self.account.options.get("callback_networks") or ()
        return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)

    @abstractmethod
    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        """Start one job."""

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        """Start up to `max_batch` jobs in one call; none is started if it raises ProviderRejected."""
        raise NotImplementedError(f"{self.adapter} starts jobs one by one")

    @abstractmethod
    def status(self, job: JobRef) -> ProviderUpdate:
        """Ask about one job. Raises NotThere."""

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        """Ask about many jobs in few calls; what the provider does not know is absent from the answer.

        Here one by one, where a provider has no listing: one that cannot be read is told with its `problem`.
        """
        found = []
        for job in jobs:
            with suppress(NotThere):
                found.append(ListedJob("", self.readable_status(job)))
        return found

    def readable_status(self, job: JobRef) -> ProviderUpdate:
        """`status`; what only this one job's answer is to blame for becomes its `problem`."""
        try:
            return self.status(job)
        except (BadAnswer, ProviderRejected, AnswerTooLarge) as error:
            return ProviderUpdate(job.job_id, job.item_key, problem=error.detail)

    @classmethod
    def lists(cls) -> bool:
        """Whether it asks about many jobs in one call."""
        return cls.list_jobs is not Provider.list_jobs

    def result_until(self, ended: datetime) -> datetime | None:
        """When the result of a job that ended then is forgotten; None: never."""
        return ended + timedelta(seconds=self.result_seconds) if self.result_seconds is not None else None

    def missing_credentials(self) -> str:
        """What the account lacks to be asked anything, in words; else ""."""
        return "" if self.account.api_key or not self.needs_api_key else "its API key"

    def greet(self) -> None:
        """One harmless call with our credentials, for `manage.py doctor`: after a job that is not there, unless the
        provider has something cheaper. Raises what `status` does, but for NotThere, which is an answer."""
        with suppress(NotThere):
            self.status(JobRef(NO_JOB))

    @abstractmethod
    def result(self, job: JobRef) -> Any:
        """Fetch a finished job's result from our base URL and the job id: a `Result`, or the bare JSON value.

        Raises NotThere while it is not there, Gone where it never will be, BadAnswer with what came instead.
        """

    def results(self, job: JobRef) -> Iterator[tuple[str, "Result | ProviderError"]]:
        """Where `has_items`: the results of all items of a finished job, each with its `item_key`, one after the other.

        Fetched once and streamed: never more than an item in memory. An item of its own error is handed out among the
        others, `ItemFailed` where the provider says that it came to nothing; what is raised is said of all the rest.
        """
        raise NotImplementedError(f"{self.adapter} has no shared jobs")

    @abstractmethod
    def cancel(self, job: JobRef) -> ProviderUpdate:
        """Ask to cancel; returns what the provider says then: it may say that the job is finished."""

    @abstractmethod
    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        """Read a verified callback. Raises Unparseable; a status word it does not know becomes `unknown`."""
