"""The bulk verbs: which rows a filter names, and what is done to a chunk of them. The doing is the lifecycle's.

A verb's `act` runs inside the transaction that also writes the outcomes, so it tells of each row what it has done to it
itself: a row that somebody else moved first is skipped, with the reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from console.models import Operation
from console.operations.filters import at
from delivery import dead_letters as delivery_side
from delivery import lifecycle as delivery_verbs
from delivery import replays
from delivery.models import Delivery, Endpoint, lean
from kernel.api.problems import BadInput
from tasks.engine import lifecycle as task_verbs
from tasks.models import Task
from tasks.reading import dead_letters as task_side
from tasks.states import OPEN_STATES, Cause

DONE, SKIPPED, FAILED = "done", "skipped", "failed"
TASKS_AT_ONCE = task_verbs.CHUNK  # each writes its transition, its batch's counts and its event: shorter locks

Asked = dict[str, Any]
Outcomes = dict[int, tuple[str, str]]  # id → (outcome, detail)


def _nothing_to_say(_asked: Asked, _subscriber: str | None, _now: datetime) -> list[str]:
    return []


@dataclass(frozen=True)
class BulkVerb:
    """`rows` are what the filter means now; `act` does it to some of them and says what became of each.

    `permission` is what a console user needs to do it to one row: doing it to thousands must not need less. `warnings`
    are sentences for whoever is about to begin.
    """

    allowed: frozenset[str]
    rows: Callable[[Asked, str | None], QuerySet]
    act: Callable[[Sequence[int], Operation], Outcomes]
    can_have_canary: bool = False
    required: frozenset[str] = frozenset()
    permission: str = ""  # nobody but a superuser has this one
    at_most: int = 1_000  # rows of one transaction
    warnings: Callable[[Asked, str | None, datetime], list[str]] = _nothing_to_say
    says_why_none: bool = False  # where the set is empty, the warnings say why: nothing is begun


def _owner(asked: Asked, subscriber: str | None) -> str | None:
    return subscriber if subscriber is not None else asked.get("subscriber")


def _dead_deliveries(asked: Asked, subscriber: str | None) -> QuerySet[Delivery]:
    rows = delivery_side.dead_letters(
        endpoint=asked.get("endpoint"),
        subscriber=_owner(asked, subscriber),
        outcome=asked.get("outcome"),
        status_code=asked.get("status_code"),
        group=asked.get("fingerprint"),
        since=at(asked.get("since")),
        until=at(asked.get("until")),
    )
    return rows.filter(pk__in=asked["ids"]) if "ids" in asked else rows


def _redrivable_deliveries(asked: Asked, subscriber: str | None) -> QuerySet[Delivery]:
    return delivery_side.redrivable(_dead_deliveries(asked, subscriber))


def _dead_tasks(asked: Asked, subscriber: str | None) -> QuerySet[Task]:
    rows = task_side.dead_letters(
        _owner(asked, subscriber),
        asked.get("kind"),
        asked.get("error_code"),
        asked.get("batch"),
        asked.get("fingerprint"),
    )
    return _narrowed(rows, asked, "finished_at")


def _open_tasks(asked: Asked, subscriber: str | None) -> QuerySet[Task]:
    rows = Task.objects.filter(state__in=OPEN_STATES)
    conditions = {
        "subscriber": _owner(asked, subscriber),
        "kind": asked.get("kind"),
        "batch_id": asked.get("batch"),
        "state": asked.get("state"),
        "reference": asked.get("reference"),
    }
    rows = rows.filter(**{name: value for name, value in conditions.items() if value is not None})
    return _narrowed(rows, asked, "created_at")


def _narrowed(rows: QuerySet, asked: Asked, moment: str) -> QuerySet:
    if "ids" in asked:
        rows = rows.filter(pk__in=asked["ids"])
    if (since := at(asked.get("since"))) is not None:
        rows = rows.filter(**{f"{moment}__gte": since})
    if (until := at(asked.get("until"))) is not None:
        rows = rows.filter(**{f"{moment}__lt": until})
    return rows


def _replayable(asked: Asked, subscriber: str | None) -> QuerySet:
    endpoint = lean(Endpoint.objects.filter(pk=asked["endpoint"], deleted_at=None)).first()
    if endpoint is None or (subscriber is not None and endpoint.subscriber != subscriber):
        raise BadInput("filter.endpoint: there is no such endpoint.", code="endpoint_not_found")
    since = at(asked.get("since"))
    if since is None and "ids" not in asked:
        raise BadInput("filter.since: name the time to replay from, or the events by ids.", code="since_required")
    until, types = at(asked.get("until")), asked.get("types")
    rows = replays.events_for(endpoint, event_ids=asked.get("ids"), since=since, until=until, types=types)
    if "ids" not in asked:
        return rows
    if types is not None:
        rows = rows.filter(replays.of_types(types))
    return _narrowed(rows, {name: value for name, value in asked.items() if name != "ids"}, "created_at")


def _of_deleted_endpoints(asked: Asked, subscriber: str | None, _now: datetime) -> list[str]:
    words = delivery_side.left_out_words(delivery_side.kept_count(_dead_deliveries(asked, subscriber)))
    return [words] if words else []


def _would_come_twice(asked: Asked, subscriber: str | None, now: datetime) -> list[str]:
    unfinished = (Operation.State.RUNNING, Operation.State.PAUSED)
    twins = Operation.objects.filter(verb=Operation.Verb.REPLAY_EVENTS, state__in=unfinished)
    found = twins.filter(filter__endpoint=asked["endpoint"]).order_by("pk").values_list("pk", flat=True)[:3]
    said = [f"Operation {pk}, which replays to this endpoint too, is not finished yet." for pk in found]
    return said + replays.already_there(asked["endpoint"], _replayable(asked, subscriber), now).words(now)


def _redrive_deliveries(ids: Sequence[int], operation: Operation) -> Outcomes:
    moved = delivery_verbs.redriven(ids, actor=operation.actor, reason=operation.reason)
    return _outcomes(ids, moved, "is no dead letter of a live endpoint any more")


def _discard_deliveries(ids: Sequence[int], operation: Operation) -> Outcomes:
    moved = delivery_verbs.discarded(ids, actor=operation.actor, reason=operation.reason)
    return _outcomes(ids, moved, "is no dead letter any more")


def _redrive_tasks(ids: Sequence[int], operation: Operation) -> Outcomes:
    moved = task_verbs.redrive(ids, actor=operation.actor, reason=operation.reason, cause=Cause.OPERATOR)
    causes = Task.objects.filter(pk__in=moved).values_list("pk", "kind", "error_code")  # a redrive leaves them
    return _outcomes(ids, {pk: f"{kind}/{code}" for pk, kind, code in causes}, "is no dead letter any more")


def _cancel_tasks(ids: Sequence[int], operation: Operation) -> Outcomes:
    words = task_verbs.cancel(ids, actor=operation.actor, reason=operation.reason, cause=Cause.OPERATOR)
    return _outcomes(ids, {pk: word for pk, word in words.items() if word != "refused"}, "was finished already")


def _replay_events(ids: Sequence[int], operation: Operation) -> Outcomes:
    made = replays.owe(operation.filter["endpoint"], ids, actor=operation.actor, reason=operation.reason)
    done = {event: f"delivery {delivery}" for event, delivery in made.items()}
    return _outcomes(ids, done, "the event was pruned, or its endpoint was deleted")


def _outcomes(ids: Sequence[int], done: dict[int, str], otherwise: str) -> Outcomes:
    return {pk: (DONE, done[pk]) if pk in done else (SKIPPED, otherwise) for pk in ids}


_DELIVERY_FILTER = frozenset({"endpoint", "subscriber", "outcome", "status_code", "fingerprint", "since", "until"})
_TASK_FILTER = frozenset({"kind", "error_code", "batch", "subscriber", "fingerprint", "since", "until"})
_OPEN_FILTER = frozenset({"kind", "batch", "state", "subscriber", "reference", "since", "until"})
_EVENT_FILTER = frozenset({"endpoint", "types", "since", "until"})

VERBS: dict[str, BulkVerb] = {
    Operation.Verb.REDRIVE_DELIVERIES: BulkVerb(
        _DELIVERY_FILTER,
        _redrivable_deliveries,
        _redrive_deliveries,
        True,
        permission="delivery.redrive_delivery",
        warnings=_of_deleted_endpoints,
        says_why_none=True,
    ),
    Operation.Verb.DISCARD_DELIVERIES: BulkVerb(
        _DELIVERY_FILTER, _dead_deliveries, _discard_deliveries, permission="delivery.discard_delivery"
    ),
    Operation.Verb.REPLAY_EVENTS: BulkVerb(
        _EVENT_FILTER,
        _replayable,
        _replay_events,
        required=frozenset({"endpoint"}),
        permission="delivery.change_endpoint",
        warnings=_would_come_twice,
    ),
    Operation.Verb.REDRIVE_TASKS: BulkVerb(
        _TASK_FILTER, _dead_tasks, _redrive_tasks, True, permission="tasks.redrive_task", at_most=TASKS_AT_ONCE
    ),
    Operation.Verb.CANCEL_TASKS: BulkVerb(
        _OPEN_FILTER, _open_tasks, _cancel_tasks, permission="tasks.cancel_task", at_most=TASKS_AT_ONCE
    ),
}


def refusal_of(asked: str | None, has_perm: Callable[[str], bool]) -> str | None:
    """Why a console user may not begin this; None where they may, or may do all and are told what else is wrong.

    Who may not do every verb gets one answer for those that they may not do and for those that there are none of.
    """
    may = [name for name, verb in VERBS.items() if has_perm(verb.permission)]
    if not may:
        return "You may not do this to one row, so not to many either; ask an administrator."
    if asked is None or asked in may or len(may) == len(VERBS):
        return None
    return f"You may begin {', '.join(may)}; for another ask an administrator for the right to do it to one row."
