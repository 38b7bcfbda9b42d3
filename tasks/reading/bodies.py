"""Inputs and results without holding them whole: short ones with their task, long ones in parts through a file. SQL.

Lists carry sizes. What is read here is a payload: whoever asks has been found to have the right to it.
"""

from collections.abc import Iterable
from typing import IO, Any

from django.db.models import BinaryField, TextField
from django.db.models.functions import Cast, Left, Substr

from kernel.database import spools
from tasks.models import KeptAnswer, Task

NAMES = ("input", "result")
INLINE_BYTES = 1024 * 1024  # of one body, shown with its task; a longer one has an address of its own
LIST_BYTES = 4 * 1024 * 1024  # of all bodies of one page of a list, where it is asked for them
SHOWN_CHARACTERS = 64 * 1024  # of a page for people

_SOURCES = {
    "input": "SELECT convert_to(input::text, 'UTF8') AS body FROM tasks_task WHERE id = %s",
    "result": "SELECT convert_to(result::text, 'UTF8') AS body FROM tasks_task WHERE id = %s",
    "kept_answer": "SELECT body || ''::bytea AS body FROM tasks_keptanswer WHERE id = %s",
}


def inline(task: Task, name: str, *, may_read: bool) -> Any:
    """The body where it is short, else None. `may_read`: what was not loaded with the row is read now."""
    size = getattr(task, f"{name}_bytes")
    if size is None or size > INLINE_BYTES or (name in task.get_deferred_fields() and not may_read):
        return None
    return getattr(task, name)


def load(tasks: Iterable[Task]) -> None:
    """Give these rows their bodies, in their order, as long as they fit into `LIST_BYTES` together."""
    left, chosen = LIST_BYTES, {}
    for task in tasks:
        sizes = (task.input_bytes or 0, task.result_bytes or 0)
        if max(sizes) <= INLINE_BYTES and sum(sizes) <= left:
            left -= sum(sizes)
            chosen[task.pk] = task
    for pk, *bodies in Task.objects.filter(pk__in=chosen).values_list("pk", *NAMES):
        for name, body in zip(NAMES, bodies, strict=True):
            setattr(chosen[pk], name, body)


def beginning(task: Task, name: str) -> str:
    """The first characters of a body as its text, whatever its length."""
    text = Left(Cast(name, TextField()), SHOWN_CHARACTERS)
    return Task.objects.filter(pk=task.pk).values_list(text, flat=True).first() or ""


def kept_beginning(answer: KeptAnswer) -> str:
    """The first bytes of what was kept, as text: what is no UTF-8 and no letter stands as its number."""
    part = Substr("body", 1, SHOWN_CHARACTERS, output_field=BinaryField())
    head = KeptAnswer.objects.filter(pk=answer.pk).values_list(part, flat=True).first()
    text = bytes(head or b"").decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in text)


def spooled(name: str, pk: int) -> tuple[IO[bytes], int]:
    """A task's `input` or `result`, or a `kept_answer`, as a file at its beginning, and how long it is."""
    return spools.spooled(_SOURCES[name], pk)
