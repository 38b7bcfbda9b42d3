"""Unique keys: who holds one. The database's own index decides; this says it in words, and keeps a redrive from it.

A task holds its key for as long as its `unique_while` says, within its kind and its subscriber.
"""

from collections.abc import Iterable, Sequence

from tasks.models import HOLDS_KEY, Task

Key = tuple[str, str, str]  # kind, subscriber, unique key


def holders(kind: str, subscriber: str, keys: Iterable[str]) -> dict[str, int]:
    """Unique key → the task that holds it, of those that are held."""
    wanted = [key for key in keys if key]
    rows = Task.objects.filter(HOLDS_KEY, kind=kind, subscriber=subscriber, unique_key__in=wanted)
    return dict(rows.exclude(unique_key="").values_list("unique_key", "pk")) if wanted else {}


def holder(task: Task) -> int | None:
    """The other task that holds this one's key now."""
    other = holders(task.kind, task.subscriber, [task.unique_key]).get(task.unique_key)
    return other if other != task.pk else None


def may_hold(tasks: Sequence[Task]) -> list[Task]:
    """Those that may be open again: nobody else holds their key, and only the first of these of one key."""
    taken: dict[Key, int] = {}
    for kind, subscriber in {(task.kind, task.subscriber) for task in tasks if task.unique_key}:
        keys = [task.unique_key for task in tasks if (task.kind, task.subscriber) == (kind, subscriber)]
        taken |= {(kind, subscriber, key): pk for key, pk in holders(kind, subscriber, keys).items()}
    free = []
    for task in tasks:
        key = (task.kind, task.subscriber, task.unique_key)
        if not task.unique_key or taken.setdefault(key, task.pk) == task.pk:
            free.append(task)
    return free
