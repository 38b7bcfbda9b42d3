"""Apify's API v2 below `/apify/`: runs of actors, their datasets, and the webhooks that came with a start.

Actors: any that is asked for `searchStringsArray` searches maps, as compass/crawler-google-places does;
`roundtrip/numbers` makes `count` items in pages of at most `page`, and says that there are `says`; one whose name
begins with `nobody` is not there.
"""

from __future__ import annotations

import base64
import json
import secrets
import string
import time
from typing import Any

from sandbox.emulated.calling_back import CallingBack, body_of, query_of
from sandbox.emulated.engine import No
from sandbox.provider import kinds
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, PROCESSING, QUEUED, Job
from sandbox.times import iso, lower_bound
from sandbox.web import Request, json_answer

STATUSES = {QUEUED: "READY", PROCESSING: "RUNNING", COMPLETED: "SUCCEEDED", FAILED: "FAILED", CANCELLED: "ABORTED"}
ODD = "WARMING-UP"
USER = "usersandbox0000001"
MOST_MEGABYTES = 32_768
NO_LIMIT = 999_999_999_999
FILLER = {"business": {"name": "Numbers"}}
NUMBERS = "roundtrip~numbers"


class Apify(CallingBack):
    def is_allowed(self, request: Request) -> bool:
        token = query_of(request).get("token", "").encode()
        return self.is_key(token) if token else super().is_allowed(request)

    def worded(self, no: No) -> dict[str, Any]:
        return {"error": {"type": no.code.replace("_", "-"), "message": no.message}}

    async def routes(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        match request.method.decode("latin-1"), parts[1:] if parts[0] == "v2" else []:
            case "GET", ["users", "me"]:
                return 200, {"data": {"id": USER, "username": "sandbox"}}
            case "POST", ["actors" | "acts", actor, "runs"]:
                return await self._start(request, actor)
            case "GET", ["actor-runs"] | ["actors" | "acts", _, "runs"]:
                return 200, {"data": self._list(query_of(request))}
            case "GET", ["actor-runs", name]:
                job = await self.finished(self.job(name), float(query_of(request).get("waitForFinish", 0)))
                return 200, {"data": self._run(job)}
            case "POST", ["actor-runs", name, "abort"]:
                self.runner.cancel(self.job(name))
                return 200, {"data": self._run(self.job(name))}
            case "GET", ["actor-runs", name, "dataset", "items"]:
                return 200, await self._items(request, self.job(name))
            case "GET", ["datasets", name, "items"]:
                return 200, await self._items(request, self.job(name.removeprefix("dataset")))
        raise No(404, "page-not-found", "There is nothing at this address.")

    async def _start(self, request: Request, actor: str) -> tuple[int, Any]:
        query, given = query_of(request), body_of(request)
        if actor.startswith("nobody"):
            raise No(404, "record-not-found", f"Actor {actor} was not found")
        if int(query.get("memory", 1024)) > MOST_MEGABYTES:
            raise No(402, "actor-memory-limit-exceeded", "You would exceed the memory limit of your account.")
        hooks = _webhooks(query.get("webhooks", ""))
        kind, work = _work(actor, given)
        agent = request.header(b"user-agent").decode("latin-1")
        asked = {"actor": actor, "input": given, "query": query, "hooks": hooks, "agent": agent}
        job = self.started(kind, work, _id(), asked=asked)
        self._announce(job, "CREATED")
        return 201, {"data": self._run(await self.finished(job, float(query.get("waitForFinish", 0))))}

    def _run(self, job: Job) -> dict[str, Any]:
        asked = self.asked[job.id]
        message = job.error["message"] if job.error else "The run was aborted." if job.status == CANCELLED else None
        return {
            "id": job.id,
            "actId": asked["actor"],
            "userId": USER,
            "startedAt": iso(job.created_at),
            "finishedAt": iso(job.finished_at),
            "status": ODD if job.odd else STATUSES[job.status],
            "statusMessage": message,
            "meta": {"origin": "API", "userAgent": asked["agent"]},
            "stats": {"restartCount": 0, "resurrectCount": 0, "computeUnits": 0.01},
            "options": {
                "build": asked["query"].get("build", "latest"),
                "timeoutSecs": int(asked["query"].get("timeout", 300)),
                "memoryMbytes": int(asked["query"].get("memory", 1024)),
                "diskMbytes": 2048,
            },
            "buildId": "buildsandbox00001",
            "buildNumber": "0.0.1",
            "exitCode": {COMPLETED: 0, FAILED: 1}.get(job.status),
            "defaultKeyValueStoreId": f"store{job.id}",
            "defaultDatasetId": f"dataset{job.id}",
            "defaultRequestQueueId": f"queue{job.id}",
            "usageTotalUsd": 0.01,
        }

    def _list(self, query: dict[str, str]) -> dict[str, Any]:
        after = lower_bound(query["startedAfter"]) if query.get("startedAfter") else 0.0
        wanted = set(query.get("status", "").split(",")) - {""}
        runs = [self._run(job) for job in self.newest() if job.created_at >= after]
        runs = [run for run in runs if not wanted or run["status"] in wanted]
        if query.get("desc", "0") not in ("1", "true"):
            runs.reverse()
        offset, limit = int(query.get("offset", 0)), min(1000, int(query.get("limit") or 1000))
        page = runs[offset : offset + limit]
        about = {"total": len(runs), "offset": offset, "limit": limit, "desc": False, "count": len(page)}
        return {**about, "items": page}

    async def _items(self, request: Request, job: Job) -> bytes:
        if job.id in self.expired:
            raise No(404, "record-not-found", "Dataset was not found")
        query, asked = query_of(request), self.asked[job.id]
        items = await _made(job, asked) if job.status == COMPLETED else []
        offset, limit = int(query.get("offset", 0)), int(query.get("limit") or NO_LIMIT)
        most = int(asked["input"].get("page", limit)) if asked["actor"] == NUMBERS else limit
        page = items[offset : offset + min(limit, most)]
        total = int(asked["input"].get("says", len(items))) if asked["actor"] == NUMBERS else len(items)
        about = {"total": total, "offset": offset, "limit": limit, "count": len(page), "desc": "false"}
        headers = [(f"x-apify-pagination-{name}".encode(), str(value).encode()) for name, value in about.items()]
        return json_answer(200, page, *headers)

    def changed(self, job: Job) -> None:
        if job.finished:
            self._announce(job, STATUSES[job.status])

    def _announce(self, job: Job, event: str) -> None:
        event = f"ACTOR.RUN.{event}"
        for hook in self.asked[job.id]["hooks"]:
            if event in hook.get("eventTypes", ()):
                own = json.loads(hook.get("headersTemplate") or "{}")
                headers = {**own, "X-Apify-Webhook-Dispatch-Id": _id(), "X-Apify-Request-Origin": "WEBHOOK"}
                self.tell(hook["requestUrl"], self._payload(job, event), headers)

    def _payload(self, job: Job, event: str) -> dict[str, Any]:
        """The default template."""
        return {
            "userId": USER,
            "createdAt": iso(time.time()),
            "eventType": event,
            "eventData": {"actorId": self.asked[job.id]["actor"], "actorRunId": job.id},
            "resource": self._run(job),
        }


def _work(actor: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the engine does for an actor's input."""
    if actor == NUMBERS:
        return "scoring", FILLER
    searches = given.get("searchStringsArray")
    if not isinstance(searches, list) or not searches:
        raise No(400, "invalid-input", "Input is not valid: Field input.searchStringsArray is required")
    search = {
        "trade": str(searches[0]),
        "place": str(given.get("locationQuery") or ""),
        "limit": given.get("maxCrawledPlacesPerSearch", 10),
    }
    try:
        return "map_search", kinds.checked("map_search", search)
    except kinds.BadInput as error:
        raise No(400, "invalid-input", f"Input is not valid: {error}") from None


async def _made(job: Job, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of a finished run, as its actor writes them."""
    if asked["actor"] == NUMBERS:
        return [{"number": number} for number in range(int(asked["input"].get("count", 3)))]
    found = await kinds.result_of("map_search", job.input)
    return [_place(place, job.input["trade"], rank) for rank, place in enumerate(found["places"], 1)]


def _place(place: dict[str, Any], search: str, rank: int) -> dict[str, Any]:
    return {
        "title": place["name"],
        "categoryName": place["category"],
        "address": place["address"],
        "city": place["place"],
        "countryCode": place["country"],
        "location": {"lat": place["lat"], "lng": place["lon"]},
        "totalScore": place["rating"],
        "reviewsCount": place["reviews"],
        "website": place["website"] or None,
        "phone": place["phone"],
        "placeId": place["id"],
        "searchString": search,
        "rank": rank,
    }


def _webhooks(encoded: str) -> list[dict[str, Any]]:
    try:
        hooks = json.loads(base64.b64decode(encoded)) if encoded else []
    except ValueError:
        raise No(400, "invalid-parameter", "The parameter webhooks is not base64 of JSON") from None
    return hooks if isinstance(hooks, list) else []


def _id() -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(17))
