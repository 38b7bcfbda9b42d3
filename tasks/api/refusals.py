"""The task side's refusals as problems of RFC 9457."""

from collections.abc import Iterator
from contextlib import contextmanager

from kernel.api.problems import BadInput, Conflict, NotFound, Problem
from tasks import errors

ERRORS_SHOWN = 100


@contextmanager
def as_problems(prefix: str = "") -> Iterator[None]:
    """Turn a TaskError into the problem that stands for it; `prefix` is put before the fields of a wrong input."""
    try:
        yield
    except errors.TaskError as error:
        raise _problem(error, prefix) from error


def _problem(error: errors.TaskError, prefix: str) -> Problem:
    match error:
        case errors.UnknownKind():
            return BadInput(error.detail, errors=[{"field": "kind", "code": error.code, "detail": error.detail}])
        case errors.InvalidInput():
            return _wrong_input(error, prefix)
        case errors.BadBatch():
            return BadInput(error.detail, errors=[{"field": "tasks", "code": error.code, "detail": error.detail}])
        case errors.NotFound():
            return NotFound(error.detail)
        case errors.NoProvider() | errors.WrongState():
            return Conflict(error.detail, code=error.code)
    return Problem(error.detail, code=error.code)


def _wrong_input(error: errors.InvalidInput, prefix: str) -> BadInput:
    rows = [{**row, "field": _field(prefix, row["field"])} for row in error.errors[:ERRORS_SHOWN]]
    more = len(error.errors) - len(rows)
    first = f"{rows[0]['field']}: {rows[0]['detail']}" if rows else error.detail
    return BadInput(f"{first} ({more} more errors are not listed.)" if more else first, errors=rows)


def _field(prefix: str, field: str) -> str:
    """`place` of a single task's input is `input.place`; an error of the whole input is `input`."""
    return field if not prefix or field == prefix or field.startswith(f"{prefix}.") else f"{prefix}.{field}"
