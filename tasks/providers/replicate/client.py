"""Replicate's HTTP API. A prediction is a job; it keeps none of our words, so a start whose answer never came is known
again only by the address of its webhook.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tasks.providers import mapping, results
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
from tasks.providers.prompts import prompt
from tasks.providers.replicate import payloads

PAGES = 20  # of a hundred predictions each: further back each job is asked for by itself
WHERE = {"model": "/v1/models/{}/predictions", "deployment": "/v1/deployments/{}/predictions"}


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
        "model": "An official model, as owner/name. This, version or deployment is needed.",
        "version": "The version of a model, by its 64 digits.",
        "deployment": "A deployment of yours, as owner/name.",
        "input": "What the model is given, as a template; without one a prompt for our own kinds, else our input as "
        "it is.",
    }

    def lacks(self, kind: str, options: Mapping[str, Any]) -> str:
        return "" if _place(options) else "a model (one of the options model, version, deployment)"

    def refusal(self, said: Any) -> tuple[str, str]:
        """RFC 7807: a title and a detail."""
        if not isinstance(said, Mapping):
            return "", ""
        return str(said.get("title") or ""), str(said.get("detail") or "")

    def greet(self) -> None:
        self.document(Call.POLL, "/v1/account")

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        path = _place(call.options)
        if not path:
            raise ProviderDenied(f"The options of the account and the kind lack {self.lacks(kind, call.options)}.")
        body: dict[str, Any] = {"input": _model_input(kind, job.input, call.options)}
        if path == "/v1/predictions":
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
        made = understood(payloads.output, read.value)
        return Result(payloads.as_result(made), read.raw, read.note)

    def cancel(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self.document(Call.CANCEL, f"{_path(job)}/cancel"))

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)


def _path(job: JobRef) -> str:
    return f"/v1/predictions/{part(job.job_id)}"


def _place(options: Mapping[str, Any]) -> str:
    """Where a prediction of these options is begun; "" where they name no model."""
    for name, path in WHERE.items():
        value = options.get(name)
        if isinstance(value, str) and value.strip():
            owner, _, called = value.strip().partition("/")
            return path.format(f"{part(owner)}/{part(called)}") if owner and called else ""
    version = options.get("version")
    return "/v1/predictions" if isinstance(version, str) and version.strip() else ""


def _model_input(kind: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    template = options.get("input")
    asked = prompt(kind, given) if template is None else ""
    return {"prompt": asked} if asked else mapping.given_input(template, given)
