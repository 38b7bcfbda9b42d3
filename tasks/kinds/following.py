"""What is to follow a batch or a task: the steps that its caller named, and those that its kind declares. Pure.

A step is `{"kind": …, "on": "completed" or "succeeded"}`; each follows the one before it. What a kind declares follows
every batch of it, and every task that belongs to no batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.errors import BadSteps, InvalidInput, UnknownKind, wrong_field
from tasks.kinds import chaining, registry
from tasks.states import When

MAX_STEPS = 10
Step = dict[str, Any]


@dataclass(frozen=True)
class Wish:
    """One follow-up of one parent. `key` tells its wishes apart; `then` follows what it makes."""

    key: str
    kind: str
    on: str
    then: list[Step] | None = None


def checked(kind: str, then: Any, *, is_batch: bool) -> list[Step] | None:
    """The steps as they are stored; None where there are none. Raises BadSteps with `then.<index>.…` as fields."""
    try:
        return _checked(kind, then, is_batch=is_batch)
    except InvalidInput as error:
        raise BadSteps(error.detail, errors=error.errors) from None


def _checked(kind: str, then: Any, *, is_batch: bool) -> list[Step] | None:
    if then is None or then == []:
        return None
    if not isinstance(then, Sequence) or isinstance(then, str):
        raise wrong_field("then", "wrong_type", 'It must be a list of steps: [{"kind": "scoring"}].')
    if len(then) > MAX_STEPS:
        raise wrong_field("then", "too_many", f"At most {MAX_STEPS} steps; this has {len(then)}.")
    steps, before = [], kind
    for index, given in enumerate(then):
        step = _step(f"then.{index}", given)
        _refuse_unlinked(f"then.{index}.kind", before, step["kind"], is_batch=is_batch or index > 0)
        steps.append(step)
        before = step["kind"]
    return steps


def _step(field: str, given: Any) -> Step:
    if not isinstance(given, Mapping):
        raise wrong_field(field, "wrong_type", 'A step must be an object: {"kind": "scoring"}.')
    unknown = sorted(map(str, given.keys() - {"kind", "on"}))
    if unknown:
        raise wrong_field(f"{field}.{unknown[0][:60]}", "unknown_field", "There is no such field; there are kind, on.")
    try:
        kind = registry.get(str(given.get("kind", "")))
    except UnknownKind as error:
        raise wrong_field(f"{field}.kind", error.code, error.detail) from None
    on = given.get("on", When.COMPLETED.value)
    if on not in When.values:
        raise wrong_field(f"{field}.on", "unknown_word", f"It is one of {', '.join(When.values)}.")
    return {"kind": kind.name, "on": str(on)}


def _refuse_unlinked(field: str, before: str, kind: str, *, is_batch: bool) -> None:
    if (before, kind) in chaining.LINKS or (is_batch and kind in chaining.OF_BATCHES):
        return
    choices = [target for source, target in chaining.LINKS if source == before]
    choices += list(chaining.OF_BATCHES) if is_batch else []
    words = f"It can go on as {' or '.join(choices)}." if choices else "Nothing can be made from its results."
    raise wrong_field(field, "not_linked", f"{before} cannot be followed by {kind}. {words}")


def wishes(kind: str, then: list[Step] | None) -> Iterator[Wish]:
    """What is to follow a batch or a task of a kind, when it has ended."""
    if then:
        yield Wish("then", then[0]["kind"], then[0]["on"], then[1:] or None)
    declared = registry.find(kind)
    if declared is None:
        return
    for on, targets in ((When.SUCCEEDED, declared.on_succeeded), (When.COMPLETED, declared.on_completed)):
        for target in targets:
            yield Wish(f"{on.value}:{target}", target, on.value)


def circles() -> list[str]:
    """Kinds whose declared follow-ups lead back to themselves: they would go on, and be paid for, without end."""
    return [name for name in registry.KINDS if name in _reached(name)]


def _reached(name: str) -> set[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        kind = registry.find(ahead.pop())
        targets = {*kind.on_succeeded, *kind.on_completed} - found if kind else set()
        found |= targets
        ahead += targets
    return found
