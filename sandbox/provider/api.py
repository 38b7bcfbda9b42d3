"""The provider's HTTP API: `/v1/…` for callers with the key, `/_…` for whoever runs the sandbox."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from sandbox.provider import kinds
from sandbox.provider.faults import RATES, BadFault, Faults
from sandbox.provider.hooks import Hooks
from sandbox.provider.jobs import Batch, Job, Store, after
from sandbox.provider.limits import CallLimit
from sandbox.provider.refusal import Refusal
from sandbox.provider.runner import Runner
from sandbox.provider.sender import Sender
from sandbox.provider.stats import Stats
from sandbox.settings import Settings
from sandbox.times import lower_bound
from sandbox.web import Outcome, Request, json_answer

MAX_BATCH = 10_000
MAX_PAGE = 1000
Reply = tuple[int, object]


class Provider:
    """One account at one provider that runs three kinds of jobs."""

    def __init__(self, settings: Settings) -> None:
        self._key = b"Bearer " + settings.provider_key.encode()
        self.faults, self.stats = Faults(), Stats()
        self.store = Store(settings.max_jobs)
        self.hooks = Hooks(self.faults, self.stats, Sender(settings.webhook_secret))
        self.runner = Runner(self.faults, self.stats, self.hooks.changed)
        self._limit = CallLimit()
        self._started_at = time.time()

    def handle(self, request: Request) -> Outcome:
        path = request.path.rstrip("/") or "/"
        if not path.startswith("/v1/"):
            return self._answer(lambda: self._control(request, path))
        return self._call(request, [unquote(part) for part in path.split("/")[2:]])

    # calls with the key

    async def _call(self, request: Request, parts: list[str]) -> bytes | None:
        if not hmac.compare_digest(request.header(b"authorization"), self._key):
            return self._answer(lambda: _refuse(401, "unauthorized", "Send the API key as “Authorization: Bearer”."))
        if self.faults.strikes("slow"):
            await asyncio.sleep(self.faults.seconds("slow_ms"))
        wait = self._limit.wait_seconds(self.faults.number("calls_per_s"), time.monotonic())
        if wait or self.faults.strikes("rate_limited"):
            return self._answer(lambda: _refuse(429, "rate_limited", "Too many calls.", retry_after=max(1, wait)))
        if self.faults.strikes("server_error"):
            return self._answer(lambda: _refuse(500, "internal", "Something broke here. Nothing was done."))
        try:
            status, document = await self._routed(request, parts)
        except Refusal as refusal:
            return self._refused(refusal)
        self.stats.answers[str(status)] += 1
        if status == 201 and self.faults.strikes("start_timeout"):
            await asyncio.sleep(self.faults.seconds("hang_ms"))
            return None
        return json_answer(status, document)

    async def _routed(self, request: Request, parts: list[str]) -> Reply:
        match request.method.decode("latin-1"), parts:
            case "POST", [kind, "jobs"]:
                return self._start(request, _kind(kind))
            case "POST", [kind, "batches"]:
                return self._start_batch(request, _kind(kind))
            case "GET", ["jobs"]:
                return self._list(request)
            case "GET", ["jobs", job_id]:
                return self._status(job_id)
            case "GET", ["jobs", job_id, "result"]:
                return await self._result(job_id)
            case "POST", ["jobs", job_id, "cancel"]:
                return self._cancel(job_id)
            case "GET", ["batches", batch_id]:
                return self._batch_status(batch_id)
        raise Refusal(404, "not_found", "There is nothing at this address.")

    def _start(self, request: Request, kind: str) -> Reply:
        self.stats.call("start", kind)
        body = _json_object(request)
        webhook_url = _webhook_url(body)
        (entry,) = _entries(kind, [body])
        job = self._new_jobs(request, kind, [entry], webhook_url, None)[0]
        return 201, job.shown()

    def _start_batch(self, request: Request, kind: str) -> Reply:
        self.stats.call("start_batch", kind)
        body = _json_object(request)
        webhook_url = _webhook_url(body)
        jobs = body.get("jobs")
        if not isinstance(jobs, list) or not 1 <= len(jobs) <= MAX_BATCH:
            raise Refusal(422, "invalid_input", f"jobs has to be a list of 1 to {MAX_BATCH} jobs.", field="jobs")
        entries = _entries(kind, jobs, "jobs[{}].")
        batch = self.store.new_batch(kind, str(body.get("reference") or ""), time.time())
        self.stats.jobs[kind]["batches"] += 1
        started = self._new_jobs(request, kind, entries, webhook_url, batch)
        shown = [{"job_id": job.id, "reference": job.reference, "status": job.status} for job in started]
        return 201, {"batch_id": batch.id, "kind": kind, "status": "queued", "jobs": shown}

    def _new_jobs(
        self,
        request: Request,
        kind: str,
        entries: list[tuple[dict[str, Any], str]],
        webhook_url: str,
        batch: Batch | None,
    ) -> list[Job]:
        correlation_id = request.header(b"x-correlation-id").decode("latin-1")[:200]
        now = time.time()
        started = [
            self.store.new_job(
                kind, job_input, reference, batch, now, webhook_url=webhook_url, correlation_id=correlation_id
            )
            for job_input, reference in entries
        ]
        self.stats.jobs[kind]["started"] += len(started)
        kinds.ready(kind)
        self.runner.add(started)
        return started

    def _job(self, job_id: str) -> Job:
        job = self.store.get(job_id)
        if job is None or not job.visible(time.time()):
            raise Refusal(404, "job_not_found", f"There is no job {job_id[:80]}.")
        return job

    def _status(self, job_id: str) -> Reply:
        job = self._job(job_id)
        self.stats.call("status", job.kind)
        return 200, job.shown()

    async def _result(self, job_id: str) -> Reply:
        job = self._job(job_id)
        self.stats.call("result", job.kind)
        if not job.finished:
            raise Refusal(409, "not_ready", f"The job is {job.said_status}. Ask again later.")
        if job.status != "completed":
            raise Refusal(409, f"job_{job.status}", f"The job is {job.status}; it has no result.")
        return 200, await kinds.result_of(job.kind, job.input)

    def _cancel(self, job_id: str) -> Reply:
        job = self._job(job_id)
        self.stats.call("cancel", job.kind)
        self.runner.cancel(job)
        return 200, job.shown()

    def _batch_status(self, batch_id: str) -> Reply:
        self.stats.call("batch_status")
        batch = self.store.batches.get(batch_id)
        if batch is None:
            raise Refusal(404, "batch_not_found", f"There is no batch {batch_id[:80]}.")
        return 200, batch.shown()

    def _list(self, request: Request) -> Reply:
        self.stats.call("list")
        query: dict[str, list[str]] = {}
        for name, value in request.parameters():
            query.setdefault(name, []).append(value)
        limit = min(MAX_PAGE, max(1, int(_number(query, "limit", 100))))
        since, cursor = _time(query, "since"), int(_number(query, "cursor", 0))
        kind, statuses = query.get("kind", [""])[0].replace("-", "_"), _words(query, "status")
        found = self.store.select(
            ids=_words(query, "ids"), references=_words(query, "reference"), batch_id=query.get("batch_id", [""])[0]
        )
        now = time.time()
        page: list[Job] = []
        for job in after(found, cursor):
            fits = job.updated_at >= since and (not kind or job.kind == kind)
            if fits and job.visible(now) and (not statuses or job.said_status in statuses):
                if len(page) == limit:
                    return 200, {"jobs": [j.shown() for j in page], "next_cursor": str(page[-1].number)}
                page.append(job)
        return 200, {"jobs": [job.shown() for job in page], "next_cursor": None}

    # control

    def _control(self, request: Request, path: str) -> Reply:
        match request.method.decode("latin-1"), path:
            case "GET" | "HEAD", "/healthz":
                return 200, {"status": "ok"}
            case "GET", "/":
                return 200, {"service": "sandbox provider", "kinds": kinds.KINDS, "control": ["/_faults", "/_stats"]}
            case "GET", "/_faults":
                return 200, {**self.faults.shown(), "help": RATES}
            case "POST" | "PUT", "/_faults":
                try:
                    self.faults.set(_json_object(request))
                except BadFault as error:
                    raise Refusal(422, "invalid_fault", f"{error}.") from None
                return 200, self.faults.shown()
            case "DELETE", "/_faults":
                self.faults.reset()
                return 200, self.faults.shown()
            case "GET", "/_stats":
                return 200, self._shown_stats()
            case "DELETE", "/_stats":
                self.stats.reset()
                return 200, self._shown_stats()
            case "POST", "/_reset":
                self._forget_everything()
                return 200, {"status": "empty"}
        raise Refusal(404, "not_found", "There is nothing at this address.")

    def _shown_stats(self) -> dict[str, Any]:
        repeated = self.store.repeated_references()
        return {
            **self.stats.shown(),
            "jobs": len(self.store),
            "batches": len(self.store.batches),
            "repeated_references": {"count": len(repeated), "examples": dict(list(repeated.items())[:50])},
            "uptime_s": round(time.time() - self._started_at, 1),
        }

    def _forget_everything(self) -> None:
        self.hooks.clear()
        for part in (self.runner, self.store):
            part.clear()
        for counted in (self.stats, self.faults):
            counted.reset()

    def _answer(self, make: Callable[[], Reply]) -> bytes:
        try:
            return json_answer(*make())
        except Refusal as refusal:
            return self._refused(refusal)

    def _refused(self, refusal: Refusal) -> bytes:
        self.stats.answers[str(refusal.status)] += 1
        return refusal.answer()


def _refuse(status: int, code: str, message: str, retry_after: float = 0) -> Reply:
    raise Refusal(status, code, message, retry_after=int(retry_after))


def _kind(word: str) -> str:
    kind = kinds.kind_named(word)
    if kind is None:
        raise Refusal(404, "unknown_kind", f"There is no kind {word[:80]}; there are {', '.join(kinds.KINDS)}.")
    return kind


def _json_object(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        raise Refusal(422, "invalid_json", "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refusal(422, "invalid_json", "The body has to be a JSON object.")
    return body


def _webhook_url(body: dict[str, Any]) -> str:
    url = body.get("webhook_url") or ""
    if url and (not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https")):
        raise Refusal(422, "invalid_input", "webhook_url has to be an http or https URL.", field="webhook_url")
    return url


def _entries(kind: str, jobs: list[Any], prefix: str = "") -> list[tuple[dict[str, Any], str]]:
    """(input, reference) of each; none is started unless all are good."""
    entries = []
    for index, job in enumerate(jobs):
        where = prefix.format(index)
        if not isinstance(job, dict):
            raise Refusal(422, "invalid_input", f"{where or 'the job'} has to be an object.", field=where.rstrip("."))
        try:
            entries.append((kinds.checked(kind, job.get("input")), str(job.get("reference") or "")[:500]))
        except kinds.BadInput as error:
            field = f"{where}input" if error.field == "input" else f"{where}input.{error.field}"
            raise Refusal(422, "invalid_input", f"{where}{error}.", field=field) from None
    return entries


def _words(query: dict[str, list[str]], name: str) -> list[str]:
    """Repeated and comma-separated values alike."""
    return [word for value in query.get(name, ()) for word in value.split(",") if word]


def _number(query: dict[str, list[str]], name: str, default: float) -> float:
    return _parsed(query, name, default, float, "a number")


def _time(query: dict[str, list[str]], name: str) -> float:
    return _parsed(query, name, 0.0, lower_bound, "a time: ISO 8601 or Unix seconds")


def _parsed(query: dict[str, list[str]], name: str, default: float, parse: Callable[[str], float], what: str) -> float:
    text = query.get(name, [""])[0]
    try:
        return parse(text) if text else default
    except (ValueError, OverflowError):
        raise Refusal(422, "invalid_parameter", f"{name} has to be {what}.", field=name) from None
