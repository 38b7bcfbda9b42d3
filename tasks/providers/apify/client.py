"""Apify's API v2. A run is a job; its result is the whole of its default dataset.

Apify has no idempotency of starts. The run keeps the user agent of whoever began it, and lists show it: that is where
our start token travels, and how a start is found whose answer never came.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from kernel import clock
from tasks.providers import mapping
from tasks.providers.answers import Call
from tasks.providers.apify import dataset, payloads
from tasks.providers.base import (
    BadAnswer,
    Gone,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    ProviderCall,
    ProviderDenied,
    ProviderError,
    ProviderThrottled,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calling import CallingProvider, all_pages, part, understood
from tasks.providers.payloads import readable
from tasks.states import JobStatus

MARK = "Roundtrip ref/"  # before our start token, in the user agent
RUNS_PAGE = 1000  # the most that Apify lists at once
RUNS_PAGES = 20
LOOK_BACK = timedelta(days=7)  # longer than any attempt may take
SETTLING = timedelta(seconds=15)  # so long after a run's end its dataset may still be counted as empty
NEVER = "Apify shows no user agents in its list of runs, so a start cannot be looked for."
# Both clear as other runs finish (error types of the API).
FULL = frozenset({"actor-memory-limit-exceeded", "concurrent-runs-limit-exceeded"})
EVENTS = [f"{payloads.OF_RUNS}{event}" for event in payloads.EVENTS if event != "CREATED"]


class ApifyProvider(CallingProvider):
    adapter = "apify"
    title = "Apify"
    scheme = "shared_token"
    kinds = frozenset({"map_search"})
    carries_reference = True
    names_a_place = True
    result_seconds = 7 * 86400.0  # unnamed datasets, on every plan
    default_base_url = "https://api.apify.com"
    takes_base_url = True
    option_words = {
        "actor": "The actor to run, as owner/name or by its id. Needed.",
        "input": "What the actor is given, as a template; without one, our input as it is, and for map searches what "
        "compass/crawler-google-places takes.",
        "fields": "For map searches: where the actor's items have our fields, such as {'name': 'title'}.",
        "build": "The build to run; else the actor's own choice.",
        "memory": "Megabytes of a run; else the actor's own choice.",
        "timeout": "Seconds that a run may take; else the actor's own choice.",
        "max_items": "Most items of a run that are paid for, where the actor charges by result.",
    }

    def does(self, kind: str) -> bool:
        """Whatever an actor does; map searches are sent there without being told."""
        return True

    def lacks(self, kind: str, options: Mapping[str, Any]) -> str:
        actor = options.get("actor")
        is_there = isinstance(actor, str) and actor.strip()
        return "" if is_there else "No actor is chosen: set the option actor of the account, or of the kind's policy."

    def greet(self) -> None:
        self.document(Call.POLL, "/v2/users/me")

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        if lacking := self.lacks(kind, call.options):
            raise ProviderDenied(lacking)
        actor = part(call.options["actor"].strip().replace("/", "~"))
        said = self.document(
            Call.START,
            f"/v2/actors/{actor}/runs",
            call=call,
            params=_run_options(call.options, self._webhooks(call.webhook_url)),
            json=_actor_input(kind, job.input, call.options),
            headers={"user-agent": f"{MARK}{job.reference}"},
        )
        run = understood(payloads.update, said.get("data"))
        return StartedJob(job.reference, run.job_id)

    def _webhooks(self, url: str) -> str:
        """The run's own webhook, as the query wants it. It is told by a token who calls: nothing is signed."""
        if not url:
            return ""
        hook: dict[str, Any] = {"eventTypes": EVENTS, "requestUrl": url}
        if self.account.secrets:
            hook["headersTemplate"] = json.dumps({"Authorization": f"Bearer {self.account.secrets[0]}"})
        return base64.b64encode(json.dumps([hook]).encode()).decode()

    def status(self, job: JobRef) -> ProviderUpdate:
        return understood(payloads.update, self._run(Call.POLL, job))

    def _run(self, purpose: Call, job: JobRef) -> Any:
        return self.document(purpose, f"/v2/actor-runs/{part(job.job_id)}").get("data")

    def list_jobs(
        self, *, jobs: Iterable[JobRef] = (), references: Iterable[str] = (), since: datetime | None = None
    ) -> list[ListedJob]:
        updates = ([readable(payloads.update, run) for run in page] for page in self._runs({}))
        found = self.listed(jobs, updates)
        wanted = set(references)
        if wanted or since is not None:
            found += self._started(wanted, since or clock.now() - LOOK_BACK, everything=since is not None)
        return found

    def _started(self, wanted: set[str], since: datetime, *, everything: bool) -> list[ListedJob]:
        """Runs begun since, by the start token that they carry. Raises BadAnswer where nothing can be concluded."""
        found: list[ListedJob] = []
        left = set(wanted)
        for page in self._runs({"startedAfter": since.isoformat()}):
            if page and not any(isinstance(run, Mapping) and "userAgent" in (run.get("meta") or {}) for run in page):
                raise BadAnswer(NEVER)
            for run in page:
                token = payloads.reference(run, MARK)
                if everything or token in left:
                    found.append(ListedJob(token, readable(payloads.update, run)))
            left -= {job.reference for job in found}
            if not left and not everything:
                break
        return found

    def _runs(self, query: dict[str, str]) -> Iterator[list[Any]]:
        """Pages of the account's runs, the newest first."""

        def page(cursor: str) -> tuple[list[Any], str]:
            offset = int(cursor or 0)
            where = {**query, "desc": "1", "limit": str(RUNS_PAGE), "offset": str(offset)}
            said = self.document(Call.POLL, "/v2/actor-runs", params=where).get("data")
            items = said.get("items") if isinstance(said, Mapping) else None
            if not isinstance(said, Mapping) or not isinstance(items, list):
                raise BadAnswer("Apify's list of runs has no items.")
            behind = offset + len(items)
            total = said.get("total")
            more = bool(items) and not (isinstance(total, int) and behind >= total)
            return items, str(behind) if more else ""

        return all_pages(page, RUNS_PAGES)

    def result(self, job: JobRef) -> Any:
        run = understood(payloads.update, self._run(Call.RESULT, job))
        if run.status in (JobStatus.FAILED, JobStatus.CANCELLED):
            raise Gone(f"The run ended as {run.raw_status}; it has no result.")
        if run.status != JobStatus.SUCCEEDED:
            raise NotThere(f"The run is {run.raw_status}.")
        found = self._dataset(job, run)
        if job.kind != "map_search":
            return Result({"items": found.items}, found.raw, found.note)
        places, left_out = mapping.places(found.items, job.options.get("fields"))
        return Result({"places": places}, found.raw, " ".join(words for words in (found.note, left_out) if words))

    def _dataset(self, job: JobRef, run: ProviderUpdate) -> dataset.Dataset:
        where = f"/v2/actor-runs/{part(job.job_id)}/dataset/items"
        found = dataset.whole(lambda offset: self.answer(Call.RESULT, where, params=dataset.page(offset)))
        if not found.items and run.happened_at is not None and clock.now() - run.happened_at < SETTLING:
            raise NotThere("The run has just ended, and its dataset may not be counted yet.")
        return found

    def cancel(self, job: JobRef) -> ProviderUpdate:
        said = self.document(Call.CANCEL, f"/v2/actor-runs/{part(job.job_id)}/abort")
        return understood(payloads.update, said.get("data"))

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)

    def meaning_of(self, code: str, purpose: Call, words: str) -> ProviderError | None:
        return ProviderThrottled(words) if purpose == Call.START and code in FULL else None


def _actor_input(kind: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    template = options.get("input")
    if template is None and kind == "map_search":
        where = ", ".join(str(given[name]) for name in ("place", "country") if given.get(name))
        return {
            "searchStringsArray": [given["trade"]],
            "locationQuery": where,
            "maxCrawledPlacesPerSearch": given.get("limit", 10),
        }
    return mapping.given_input(template, given)


def _run_options(options: Mapping[str, Any], webhooks: str) -> dict[str, str]:
    names = {"build": "build", "memory": "memory", "timeout": "timeout", "max_items": "maxItems"}
    found = {theirs: str(options[ours]) for ours, theirs in names.items() if options.get(ours)}
    return {**found, "webhooks": webhooks} if webhooks else found
