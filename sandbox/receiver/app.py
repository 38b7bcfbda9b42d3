"""The receiver: behave, check the signature, write the journal. Its hot path parses no JSON and allocates little."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from sandbox.receiver import behaviours
from sandbox.receiver.behaviours import Behaviour
from sandbox.receiver.journal import Journal
from sandbox.settings import Settings
from sandbox.signing import secret_bytes, verify
from sandbox.times import lower_bound
from sandbox.web import Outcome, Request, json_answer

MAX_ROUTES = 20_000
MAX_PAGE = 10_000
Keys = tuple[bytes, ...]
T = TypeVar("T")


class BadRequest(ValueError):
    """A control call is wrong; the text says how."""


class Receiver:
    def __init__(self, settings: Settings) -> None:
        self.journal = Journal(settings.journal_entries, settings.journal_bytes)
        self._secrets: dict[str, Keys] = {
            _path(path): (secret_bytes(secret),) for path, secret in settings.receiver_secrets.items()
        }
        self._behaves_as: dict[str, str] = {}
        self._routes: dict[str, tuple[Behaviour, Keys]] = {}

    def handle(self, request: Request) -> Outcome:
        path = request.path
        if path.startswith("/_") or path in ("/", "/healthz"):
            return self._control(request, path.rstrip("/"))
        behaviour, keys = self._routes.get(path) or self._route(path)
        webhook_id = signatures = timestamp = b""
        for name, value in request.headers:
            if name == b"webhook-signature":
                signatures = value
            elif name == b"webhook-id":
                webhook_id = value
            elif name == b"webhook-timestamp":
                timestamp = value
        now = time.time()
        if not signatures:
            signature = "missing"
        elif not keys:
            signature = "unknown"
        else:
            signature = "valid" if verify(keys, webhook_id, timestamp, signatures, request.body, now) else "invalid"
        status, outcome = behaviour(request)
        self.journal.add(
            now, request.method, path, request.query, request.headers, request.body, webhook_id, status, signature
        )
        return outcome

    def _route(self, path: str) -> tuple[Behaviour, Keys]:
        """Found once for each path; forgotten when secrets or behaviours change."""
        healed = _longest(self._behaves_as, path)
        route = behaviours.of(healed or path), _longest(self._secrets, path) or ()
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[path] = route
        return route

    # control

    def _control(self, request: Request, path: str) -> bytes:
        try:
            return json_answer(*self._controlled(request, path))
        except (BadRequest, ValueError) as error:
            return json_answer(422, {"error": {"code": "invalid", "message": str(error)}})

    def _controlled(self, request: Request, path: str) -> tuple[int, object]:
        query = dict(request.parameters())
        match request.method.decode("latin-1"), path:
            case "GET" | "HEAD", "/healthz":
                return 200, {"status": "ok"}
            case "GET", "":
                return 200, {"service": "sandbox receiver", "behaviours": [f"/{b}" for b in behaviours.BEHAVIOURS]}
            case "GET", "/_journal":
                return 200, self._page(query)
            case "GET", "/_journal/summary":
                return 200, self.journal.summary(**_filters(query))
            case "DELETE", "/_journal":
                self.journal.clear()
                return 200, {"total": 0}
            case (("GET" | "POST" | "DELETE" as method), "/_secrets"):
                return 200, self._change_secrets(method, request, query)
            case (("GET" | "POST" | "DELETE" as method), "/_behaviour"):
                return 200, self._change_behaviour(method, request, query)
        return 404, {"error": {"code": "not_found", "message": "There is nothing at this address."}}

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        return self.journal.page(
            limit=min(MAX_PAGE, int(query.get("limit") or 100)),
            offset=max(0, int(query.get("offset") or 0)),
            newest_first=query.get("order") == "desc",
            **_filters(query),
        )

    def _change_secrets(self, method: str, request: Request, query: dict[str, str]) -> dict[str, Any]:
        """The secrets themselves are never shown again."""
        if method == "POST":
            body = _object(request)
            path, keys = _path(body.get("path")), (secret_bytes(str(body.get("secret"))),)
            self._secrets[path] = keys + (self._secrets.get(path, ()) if body.get("keep") else ())
        elif method == "DELETE":
            _drop(self._secrets, query)
        self._routes.clear()
        return {"paths": {path: len(keys) for path, keys in self._secrets.items()}}

    def _change_behaviour(self, method: str, request: Request, query: dict[str, str]) -> dict[str, Any]:
        if method == "POST":
            body = _object(request)
            self._behaves_as[_path(body.get("path"))] = _path(body.get("as"))
        elif method == "DELETE":
            _drop(self._behaves_as, query)
        self._routes.clear()
        return {"behaviours": self._behaves_as}


def _longest(by_path: Mapping[str, T], path: str) -> T | None:
    """What was said about the path, or about the nearest one above it."""
    while path:
        if path in by_path:
            return by_path[path]
        path = path.rpartition("/")[0]
    return by_path.get("/")


def _drop(by_path: dict[str, Any], query: dict[str, str]) -> None:
    if "path" in query:
        by_path.pop(_path(query["path"]), None)
    else:
        by_path.clear()


def _path(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise BadRequest("path has to be text that starts with /")
    return value.rstrip("/") or "/"


def _object(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(request.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise BadRequest("the body has to be a JSON object")
    return body


def _filters(query: dict[str, str]) -> dict[str, Any]:
    return {
        "path": query.get("path", ""),
        "since": lower_bound(query["since"]) if query.get("since") else 0.0,
        "after": int(query.get("after") or 0),
        "webhook_id": query.get("webhook_id", ""),
        "type": query.get("type", ""),
        "signature": query.get("signature", ""),
    }
