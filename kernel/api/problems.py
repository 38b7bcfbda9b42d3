"""Errors as the API answers them: RFC 9457 `application/problem+json` with a stable `code` and per-field details."""

from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import FieldDoesNotExist, PermissionDenied, RequestDataTooBig
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from kernel.counting import size
from kernel.database import reads

CONTENT_TYPE = "application/problem+json"
ERRORS_SHOWN = 100  # more help nobody; two megabytes of wrong ids would be an answer of fifty
LONGEST_FIELD, LONGEST_DETAIL = 200, 1_000
NO_KEY = "Send an API key, as `Authorization: Bearer rt_…`, or log in to the console. An operator makes keys."
log = structlog.get_logger(__name__)


class Problem(Exception):
    """A refusal with an HTTP status, a stable code, and words that say what to do."""

    status = 400
    code = "bad_request"
    title = "The request cannot be carried out"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        errors: list[dict[str, str]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`errors` may be any number: the first hundred are kept, and `error_count` says how many there were."""
        errors = errors or []
        self.error_count = len(errors)
        self.errors = [_short(row) for row in errors[:ERRORS_SHOWN]]
        self.detail = _cut(detail, LONGEST_DETAIL) + self._not_listed()
        super().__init__(self.detail)
        self.code = code or self.code
        self.status = status or self.status
        self.headers = headers or {}

    def _not_listed(self) -> str:
        more = self.error_count - len(self.errors)
        return f" ({more} more errors are not listed.)" if more else ""


def _short(row: dict[str, str]) -> dict[str, str]:
    """What callers send comes back in these, as the name of a field above all."""
    return {**row, "field": _cut(row["field"], LONGEST_FIELD), "detail": _cut(row["detail"], LONGEST_DETAIL)}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class BadInput(Problem):
    """400: a field is wrong; `errors` names each."""

    code = "invalid"
    title = "The request has errors"


class NotFound(Problem):
    status = 404
    code = "not_found"
    title = "Not found"


class Conflict(Problem):
    """409: the thing is not in a state that allows this."""

    status = 409
    code = "conflict"
    title = "Conflict with the current state"


class Unprocessable(Problem):
    status = 422
    code = "unprocessable"
    title = "The request contradicts an earlier one"


class Unavailable(Problem):
    status = 503
    code = "unavailable"
    title = "Temporarily unavailable"


class QueryTooSlow(Unavailable):
    """A read was ended because it took too long. Nothing was changed; asked more narrowly it will be answered."""

    code = "query_too_slow"

    def __init__(self, quick_filters: list[str]) -> None:
        narrower = f"one of {', '.join(quick_filters)}" if quick_filters else "an id, or fewer rows"
        log.warning("query_too_slow")
        super().__init__(
            f"This takes longer than {settings.READ_SECONDS:g} s to read; nothing was changed. Ask for less: filter by "
            f"{narrower}.",
            headers={"Retry-After": "30"},
        )


def document(problem: Problem) -> dict[str, Any]:
    """The problem as RFC 9457 writes it."""
    body: dict[str, Any] = {
        "type": f"urn:roundtrip:problem:{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    if problem.errors:
        body["errors"] = problem.errors
    if problem.error_count > len(problem.errors):
        body["error_count"] = problem.error_count
    return body


def problem_response(problem: Problem) -> Response:
    return Response(document(problem), status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers)


def flatten(detail: Any, field: str = "") -> list[dict[str, str]]:
    """DRF's nested error details as a flat list of `{field, code, detail}`; `field` is a dotted path."""
    if isinstance(detail, dict):
        return [row for key, value in detail.items() for row in flatten(value, _join(field, key))]
    if isinstance(detail, list):
        if all(not isinstance(item, dict | list) for item in detail):
            return [row for item in detail for row in flatten(item, field)]
        return [row for index, item in enumerate(detail) for row in flatten(item, _join(field, index))]
    return [{"field": field, "code": getattr(detail, "code", "invalid"), "detail": str(detail)}]


def _join(prefix: str, key: object) -> str:
    name = "" if key == "non_field_errors" else str(key)
    return f"{prefix}.{name}" if prefix and name else prefix or name


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's `EXCEPTION_HANDLER`: every refusal becomes a problem; a fault of ours stays a 500 in the log."""
    problem = _too_slow(error, context.get("view")) or as_problem(error)
    if problem is None:
        return None
    set_rollback()
    return problem_response(problem)


def _too_slow(error: Exception, view: Any) -> Problem | None:
    """A list that its filters make slow: the answer names those that an index serves."""
    return QueryTooSlow(_quick_filters(view)) if reads.is_too_slow(error) else None


def _quick_filters(view: Any) -> list[str]:
    """The filters of the view's list whose column leads an index."""
    filters = getattr(getattr(view, "filterset_class", None), "base_filters", {})
    model = getattr(getattr(view, "queryset", None), "model", None)
    return [] if model is None else sorted(name for name, one in filters.items() if _leads_index(model, one.field_name))


def _leads_index(model: Any, path: str | None) -> bool:
    for name in (path or "").split("__"):
        try:
            column = model._meta.get_field(name)
        except FieldDoesNotExist:  # a filter of several columns
            return False
        owner, model = model, column.related_model or model
    led = {index.fields[0].lstrip("-") for index in owner._meta.indexes if index.fields}
    led |= {rule.fields[0] for rule in owner._meta.constraints if getattr(rule, "fields", None)}
    return bool(column.primary_key or column.db_index or column.unique or column.name in led)


def as_problem(error: Exception) -> Problem | None:
    """The problem that stands for `error`, or None where it is our own fault."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, exceptions.ValidationError):
        errors = flatten(error.detail)
        first = errors[0] if errors else {"field": "", "detail": "invalid"}
        where = f"{first['field']}: " if first["field"] else ""
        return BadInput(f"{where}{first['detail']}", errors=errors)
    if isinstance(error, Http404):
        return NotFound("There is nothing here that you may see.")
    if isinstance(error, PermissionDenied):
        return Problem("You may not do this; ask an administrator for the right.", code="permission_denied", status=403)
    if isinstance(error, exceptions.APIException):
        return _from_api_exception(error)
    if isinstance(error, RequestDataTooBig):
        words = f"A body may have at most {size(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)}. Send it in parts."
        return Problem(words, code="too_large", status=413)
    if isinstance(error, DataError):
        log.error("value_refused_by_database", sqlstate=getattr(error.__cause__, "sqlstate", None))
        return BadInput(
            "A time, number or text in the request is beyond what can be stored or compared.",
            code="value_out_of_range",
        )
    if reads.is_too_slow(error):
        return QueryTooSlow([])
    if isinstance(error, OperationalError | InterfaceError):
        log.error("database_unreachable", error=type(error).__name__)
        return Unavailable(
            "The database cannot be reached; nothing was changed. Try again.",
            code="database_unavailable",
            headers={"Retry-After": "5"},
        )
    return None


def _from_api_exception(error: exceptions.APIException) -> Problem:
    headers = {}
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else error.default_code
    detail = NO_KEY if isinstance(error, exceptions.NotAuthenticated) else str(error.detail)
    return Problem(detail, code=code, status=error.status_code, headers=headers)
