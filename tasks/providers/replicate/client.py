"""Replicate's HTTP API. A prediction is a job; it keeps none of our words, so a start whose answer never came is known
again only by the address of its webhook.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tasks.providers import mapping, prompts, results
from tasks.providers.answers import Call
from tasks.providers.base import (
    BadAnswer,
    JobRef,
    ListedJob,
    NewJob,
    ParsedCallback,
    ProviderCall,
    ProviderDenied,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calling import CallingProvider, all_pages, part, understood
from tasks.providers.payloads import readable
from tasks.providers.replicate import payloads

PAGES = 20  # of a hundred predictions each: further back each job is asked for by itself
BY_VERSION = "/v1/predictions"


class ReplicateProvider(CallingProvider):
    adapter = "replicate"
    title = "Replicate"
    scheme = "standard_webhooks"
    finds_references = False
    carries_reference = True
    names_a_place = True
    result_seconds = 3600.0
    default_base_url = "https://api.replicate.com"
    takes_base_url = True
    option_words = {
        "model": "An official model, as owner/name. There is no default, since it decides the price.",
        "version": "Instead: the version of a model, by its 64 digits.",
        "deployment": "Instead: a deployment of yours, as owner/name.",
        "input": "What the model is given, as a template; without one a prompt for our own kinds, else our input as "
        "it is.",
        "prompt": prompts.OPTION_WORDS["prompt"],
        "max_tokens": prompts.OPTION_WORDS["max_tokens"],
    }

    def lacks(self, kind: str, options: Mapping[str, Any]) -> str:
        try:
            _place(options)
        except ProviderDenied as error:
            return error.detail
        return ""

    def refusal(self, said: Any) -> tuple[str, str]:
        """RFC 7807: a title and a detail."""
        if not isinstance(said, Mapping):
            return "", ""
        return str(said.get("title") or ""), str(said.get("detail") or "")

    def greet(self) -> None:
        self.document(Call.POLL, "/v1/account")

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        path = _place(call.options)
        body: dict[str, Any] = {"input": _model_input(kind, job.input, call.options)}
        if path == BY_VERSION:
            body["version"] = call.options["version"].strip()
        if call.webhook_url:
            body |= {"webhook": call.webhook_url, "webhook_events_filter": ["start", "completed"]}
        said = self.document(Call.START, path, call=call, json=body)
        return StartedJob(job.reference, understood(payloads.update, said).job_id)

    def status(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self.document(Call.POLL, _path(job)))

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        return self.listed(jobs, self._newest())

    def _newest(self) -> Iterator[list[ProviderUpdate]]:
        """Pages of the account's predictions, the newest first; of `next` only the cursor is taken."""

        def page(cursor: str) -> tuple[list[ProviderUpdate], str]:
            said = self.document(Call.POLL, "/v1/predictions", params={"cursor": cursor} if cursor else {})
            found = [readable(payloads.update, one) for one in payloads.results_of(said)]
            following = parse_qs(urlsplit(str(said.get("next") or "")).query).get("cursor", [""])[0]
            return found, following

        for number, updates in enumerate(all_pages(page), 1):
            yield updates
            if number >= PAGES:
                return

    def result(self, job: JobRef) -> Any:
        answer = self.answer(Call.RESULT, _path(job))
        read = results.read(answer.content)
        if not isinstance(read.value, Mapping):
            raise BadAnswer("The result cannot be used: the prediction is not an object.", raw=answer.content)
        return _as_result(job, understood(payloads.output, read.value), read)

    def cancel(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self.document(Call.CANCEL, f"{_path(job)}/cancel"))

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)


def _path(job: JobRef) -> str:
    return f"/v1/predictions/{part(job.job_id)}"


def _as_result(job: JobRef, made: Any, read: Result) -> Result:
    """An object as it is; of our own kinds, what the model wrote; anything else under its own name."""
    if isinstance(made, Mapping):
        return Result(dict(made), read.raw, read.note)
    if job.kind in prompts.KINDS and (written := payloads.written(made)):
        return prompts.read(job.kind, written)
    return Result({"output": made}, read.raw, read.note)


def _place(options: Mapping[str, Any]) -> str:
    """Where a prediction of these options is begun. Raises ProviderDenied where they name no model."""
    version, deployment = options.get("version"), options.get("deployment")
    if isinstance(version, str) and version.strip():
        return BY_VERSION
    if isinstance(deployment, str) and deployment.strip():
        return f"/v1/deployments/{_named(deployment.strip())}/predictions"
    return f"/v1/models/{_named(prompts.model(options))}/predictions"


def _named(value: str) -> str:
    owner, _, name = value.partition("/")
    if not owner or not name:
        raise ProviderDenied(f"The option {value[:60]!r} names no model of Replicate: write it as owner/name.")
    return f"{part(owner)}/{part(name)}"


def _model_input(kind: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    template = options.get("input")
    if template is not None or not (kind in prompts.KINDS or options.get("prompt")):
        return mapping.given_input(template, given)
    asked = {"prompt": prompts.words(kind, given, options)}
    return {**asked, "max_tokens": prompts.max_tokens(options)} if options.get("max_tokens") else asked
