"""Outscraper's API below `/outscraper/`: map searches as requests, and webhooks signed with the API key."""

from __future__ import annotations

import hmac
import json
import uuid
from typing import Any

from sandbox.emulated.calling_back import CallingBack, body_of, query_of
from sandbox.emulated.engine import No
from sandbox.provider import kinds
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, Job
from sandbox.web import Request, answer

STATUSES = {COMPLETED: "Success", FAILED: "Failure"}
ODD = "Warming up"
PENDING = "Pending"
MOST_QUERIES = 1000
SYNCHRONOUS_SECONDS = 60.0
MOST_LISTED = 100


class Outscraper(CallingBack):
    def is_allowed(self, request: Request) -> bool:
        return self.is_key(request.header(b"x-api-key"))

    def worded(self, no: No) -> dict[str, Any]:
        return {"error": True, "errorMessage": no.message}

    async def routes(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        match request.method.decode("latin-1"), parts:
            case "POST", ["google-maps-search"]:
                return await self._start(request)
            case "GET", ["requests"]:
                return 200, self._list(query_of(request))
            case "GET", ["requests", name]:
                return await self._request(self.job(name), query_of(request))
            case "DELETE", ["requests", name]:
                self.runner.cancel(self.job(name))
                return 200, f"Request {name} terminated"
        raise No(404, "not_found", "There is nothing at this address.")

    async def _start(self, request: Request) -> tuple[int, Any]:
        asked = body_of(request)
        queries = asked.get("query")
        queries = [queries] if isinstance(queries, str) else queries
        if not isinstance(queries, list) or not 1 <= len(queries) <= MOST_QUERIES:
            raise No(422, "invalid", f"query has to have 1 to {MOST_QUERIES} queries.")
        searches = [_search(str(query), asked) for query in queries]
        name = f"a-{uuid.uuid4()}"
        job = self.started("map_search", searches[0], name, str(asked.get("webhook") or ""), searches)
        if asked.get("async") not in (False, "false"):
            where = f"https://api.outscraper.cloud/requests/{job.id}"
            return 202, {"id": job.id, "status": PENDING, "results_location": where}
        await self.finished(job, SYNCHRONOUS_SECONDS)
        return await self._request(job, {})

    async def _request(self, job: Job, query: dict[str, str]) -> tuple[int, Any]:
        status = self._status(job)
        if status == STATUSES[FAILED]:
            return 204, answer(204)  # documented with a body, which none of its clients can read
        if status != STATUSES[COMPLETED]:
            return 200, {"id": job.id, "status": status}
        data = [[_place(place) for place in await _found(search)] for search in self.asked[job.id]]
        flat = [place for part in data for place in part]
        return 200, {"id": job.id, "status": status, "data": flat if query.get("flat") == "true" else data}

    def _status(self, job: Job) -> str:
        if job.id in self.expired or job.status == CANCELLED:
            return PENDING
        return ODD if job.odd else STATUSES.get(job.status, PENDING)

    def _list(self, query: dict[str, str]) -> list[dict[str, Any]]:
        """No word of ours, and no status: the type is all that tells running from finished."""
        finished = query.get("type", "running") == "finished"
        skip, size = int(query.get("skip", 0)), min(MOST_LISTED, int(query.get("pageSize", 20)))
        found = [{"id": job.id, "usage": "1"} for job in self.newest() if job.finished == finished]
        return found[skip : skip + size]

    def changed(self, job: Job) -> None:
        if job.finished and job.status in STATUSES and job.webhook_url:
            self._announce(job)

    def _announce(self, job: Job) -> None:
        said = {
            "id": job.id,
            "user_id": "e502bde6b0714ca5a0e4fcc1c8872cc4",
            "status": STATUSES[job.status].upper(),
            "api_task": True,
            "results_location": f"https://api.outscraper.cloud/requests/{job.id}",
            "quota_usage": [{"product_name": "Google Maps Data", "quantity": 1}],
        }
        body = json.dumps(said, ensure_ascii=False).encode()
        signature = hmac.digest(self.key.encode(), body, "sha256").hex()
        self.tell(job.webhook_url, said, {"x-hub-signature-256": f"sha256={signature}"})


def _search(query: str, asked: dict[str, Any]) -> dict[str, Any]:
    """`trade, place, country` as one text."""
    trade, _, where = query.partition(",")
    limit = asked.get("organizationsPerQueryLimit") or asked.get("limit") or 20
    try:
        return kinds.checked(
            "map_search", {"trade": trade.strip(), "place": where.strip(), "limit": min(50, int(limit))}
        )
    except kinds.BadInput as error:
        raise No(422, "invalid", f"query: {error}") from None


async def _found(search: dict[str, Any]) -> list[dict[str, Any]]:
    return (await kinds.result_of("map_search", search))["places"]


def _place(place: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": place["name"],
        "full_address": place["address"],
        "city": place["place"],
        "country_code": place["country"],
        "latitude": place["lat"],
        "longitude": place["lon"],
        "rating": place["rating"],
        "reviews": place["reviews"],
        "site": place["website"] or None,
        "phone": place["phone"],
        "category": place["category"],
        "type": place["category"],
        "place_id": place["id"],
        "business_status": "OPERATIONAL",
    }
