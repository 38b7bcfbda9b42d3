"""The next batch from the results of one: which inputs a kind takes from a finished task of another kind.

Pure mapping, one function for each pair of kinds. To chain a new pair, write its function and add it to `LINKS`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tasks.errors import BadBatch
from tasks.kinds.rows import with_bodies
from tasks.models import Batch, Task
from tasks.states import State

Item = dict[str, Any]
BUSINESS_FIELDS = ("name", "category", "place", "country", "rating", "reviews", "website")


def _businesses_found(task: Task) -> Iterator[Mapping[str, Any]]:
    for place in (task.result or {}).get("places") or []:
        yield {name: place[name] for name in BUSINESS_FIELDS if place.get(name) not in (None, "")}


def places_to_emails(task: Task) -> Iterator[Item]:
    """An e-mail to every business that a map search found."""
    for business in _businesses_found(task):
        yield {"input": {"business": business}}


def places_to_scores(task: Task) -> Iterator[Item]:
    """A score of every business that a map search found."""
    yield from places_to_emails(task)


def emails_to_scores(task: Task) -> Iterator[Item]:
    """A score of the business together with the e-mail written to it."""
    result = task.result or {}
    email = {name: result[name] for name in ("subject", "body") if result.get(name)}
    yield {"input": {"business": task.input["business"], "email": email}}


LINKS: dict[tuple[str, str], Callable[[Task], Iterator[Item]]] = {
    ("map_search", "email_generation"): places_to_emails,
    ("map_search", "scoring"): places_to_scores,
    ("email_generation", "scoring"): emails_to_scores,
}


def next_items(batch: Batch, kind: str) -> Iterator[Item]:
    """`{input, reference}` items of `kind` from the batch's succeeded tasks, in their order.

    A reference reads `<task id>` or, where a task gives several, `<task id>.<number>`. Raises BadBatch where the two
    kinds cannot be chained.
    """
    link = LINKS.get((batch.kind, kind))
    if link is None:
        choices = [target for source, target in LINKS if source == batch.kind]
        words = f"It can go on as {' or '.join(choices)}." if choices else "Nothing can be made from its results."
        raise BadBatch(f"A batch of {batch.kind} cannot be followed by one of {kind}. {words}")
    for task in with_bodies(batch.tasks.filter(state=State.SUCCEEDED), "position"):
        made = list(link(task))
        for number, item in enumerate(made, start=1):
            yield {**item, "reference": f"{task.pk}.{number}" if len(made) > 1 else str(task.pk)}
