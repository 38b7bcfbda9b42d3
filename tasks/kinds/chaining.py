"""The next batch from the results of one: which inputs a kind takes from a finished task of another kind.

Pure mapping, one function for each pair of kinds. To chain a new pair, write its function and put `@link(from, to)`
before it, in the `kinds.py` of any installed app.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tasks.errors import BadBatch
from tasks.kinds.rows import with_bodies
from tasks.models import Batch, Task
from tasks.states import State

Item = dict[str, Any]
Link = Callable[[Task], Iterator[Item]]
LINKS: dict[tuple[str, str], Link] = {}
BUSINESS_FIELDS = ("name", "category", "place", "country", "rating", "reviews", "website")


class LinkTaken(Exception):
    """Two functions for one pair of kinds: which inputs would it be?"""


def link(source: str, target: str) -> Callable[[Link], Link]:
    """Make a function known that takes a finished task of `source` and gives inputs of `target`. Raises LinkTaken."""

    def keep(made: Link) -> Link:
        other = LINKS.setdefault((source, target), made)
        if (other.__module__, other.__qualname__) != (made.__module__, made.__qualname__):
            raise LinkTaken(
                f"{other.__module__} and {made.__module__} both make {target} from {source}. Take one away."
            )
        return made

    return keep


def _businesses_found(task: Task) -> Iterator[Mapping[str, Any]]:
    for place in (task.result or {}).get("places") or []:
        yield {name: place[name] for name in BUSINESS_FIELDS if place.get(name) not in (None, "")}


@link("map_search", "email_generation")
def places_to_emails(task: Task) -> Iterator[Item]:
    """An e-mail to every business that a map search found."""
    for business in _businesses_found(task):
        yield {"input": {"business": business}}


@link("map_search", "scoring")
def places_to_scores(task: Task) -> Iterator[Item]:
    """A score of every business that a map search found."""
    yield from places_to_emails(task)


@link("email_generation", "scoring")
def emails_to_scores(task: Task) -> Iterator[Item]:
    """A score of the business together with the e-mail written to it."""
    result = task.result or {}
    email = {name: result[name] for name in ("subject", "body") if result.get(name)}
    yield {"input": {"business": task.input["business"], "email": email}}


# Kinds that take a whole batch, of whatever kind, and not its tasks.
OF_BATCHES: dict[str, Callable[[Batch], Item]] = {
    "batch_report": lambda batch: {"input": {"batch": str(batch.pk)}},
}


def items_of(task: Task, source: str, kind: str) -> list[Item]:
    """What `kind` makes of a succeeded task of `source`, with references. Raises BadBatch where they are not linked."""
    made = list(require_link(source, kind)(task))
    return [
        {**item, "reference": f"{task.pk}.{number}" if len(made) > 1 else str(task.pk)}
        for number, item in enumerate(made, start=1)
    ]


def require_link(source: str, kind: str) -> Callable[[Task], Iterator[Item]]:
    function = LINKS.get((source, kind))
    if function is None:
        choices = [target for origin, target in LINKS if origin == source]
        words = f"It can go on as {' or '.join(choices)}." if choices else "Nothing can be made from its results."
        raise BadBatch(f"A batch of {source} cannot be followed by one of {kind}. {words}")
    return function


def next_items(batch: Batch, kind: str) -> Iterator[Item]:
    """`{input, reference}` items of `kind` from the batch's succeeded tasks, in their order.

    A reference reads `<task id>` or, where a task gives several, `<task id>.<number>`. Raises BadBatch where the two
    kinds cannot be chained.
    """
    require_link(batch.kind, kind)
    for task in with_bodies(batch.tasks.filter(state=State.SUCCEEDED), "position"):
        yield from items_of(task, batch.kind, kind)
