"""A batch's tasks with their inputs and results, so few at a time that long results do not fill the memory."""

from collections.abc import Iterator, Sequence

from django.db.models import QuerySet

from tasks.models import Task

ROWS_AT_ONCE = 500
BYTES_AT_ONCE = 16 * 1024 * 1024  # a single task that is longer is read alone


def with_bodies(tasks: QuerySet[Task], *fields: str) -> Iterator[Task]:
    """The tasks in the order of their batch, with `fields`, `input` and `result`."""
    for part in _parts(tasks.order_by("position").values_list("pk", "input_bytes", "result_bytes")):
        yield from Task.objects.filter(pk__in=part).only("input", "result", *fields).order_by("position")


def _parts(sizes: QuerySet[Task, tuple[int, int | None, int | None]]) -> Iterator[Sequence[int]]:
    part: list[int] = []
    held = 0
    for pk, input_bytes, result_bytes in sizes:
        size = (input_bytes or 0) + (result_bytes or 0)
        if part and (len(part) == ROWS_AT_ONCE or held + size > BYTES_AT_ONCE):
            yield part
            part, held = [], 0
        part.append(pk)
        held += size
    if part:
        yield part
