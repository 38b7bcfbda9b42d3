"""The bulk verbs: which rows a filter names, and what is done to a chunk of them. The doing is the lifecycle's.

Filters are checked here and nowhere else. Relative times ("24h") are pinned when the operation is planned.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils.dateparse import parse_datetime

from console.models import Operation
from delivery import dead_letters as delivery_side
from delivery import lifecycle as delivery_verbs
from delivery import replays
from delivery import stats as delivery_stats
from delivery.models import Delivery, Endpoint
from delivery.states import State as DeliveryState
from kernel.api.problems import BadInput
from tasks.engine import lifecycle as task_verbs
from tasks.models import Task
from tasks.reading import dead_letters as task_side
from tasks.states import OPEN_STATES, Cause
from tasks.states import State as TaskState

DONE, SKIPPED, FAILED, PLANNED = "done", "skipped", "failed", "planned"
MAX_IDS = 1_000
_RELATIVE = re.compile(r"\A(\d{1,5})(m|h|d)\Z")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Outcomes = dict[int, tuple[str, str]]  # id → (outcome, detail)


@dataclass(frozen=True)
class BulkVerb:
    """`rows` are what the filter means now; `act` does it to some of them and says what became of each.

    `permission` is what a console user needs to do it to one row: doing it to thousands must not need less.
    """

    allowed: frozenset[str]
    rows: Callable[[dict[str, Any], str | None], QuerySet]
    act: Callable[[Sequence[int], Operation], Outcomes]
    can_have_canary: bool = False
    required: frozenset[str] = frozenset()
    permission: str = ""  # nobody but a superuser has this one


def pinned(verb: "BulkVerb", asked: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The filter as it is kept: known fields, right types, absolute times. BadInput names each wrong field."""
    errors: list[dict[str, str]] = []
    kept: dict[str, Any] = {}
    for name, value in asked.items():
        try:
            if name not in verb.allowed | {"ids", "all"}:
                raise ValueError(f"unknown; use {', '.join(sorted(verb.allowed | {'ids', 'all'}))}")
            kept[name] = _READ.get(name, _text)(value, now)
        except (ValueError, TypeError) as error:
            errors.append({"field": f"filter.{name}", "code": "invalid", "detail": str(error)})
    for name in verb.required - kept.keys():
        errors.append({"field": f"filter.{name}", "code": "required", "detail": "This verb needs it."})
    if not errors and not kept:
        detail = 'Say which rows are meant, or {"all": true} if you mean all of them.'
        errors.append({"field": "filter", "code": "empty_filter", "detail": detail})
    if errors:
        raise BadInput(f"{errors[0]['field']}: {errors[0]['detail']}", errors=errors)
    return kept


def _text(value: Any, _now: datetime) -> str:
    if not isinstance(value, str) or "\x00" in value or len(value) > 200:
        raise ValueError("must be a short text")
    return value


def _number(value: Any, _now: datetime) -> int:
    """As a number or, like all our ids, as its digits. Never rounded: 1.5 is no endpoint."""
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    number = int(value) if is_digits else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise ValueError("must be a whole number")
    return number


def _time(value: Any, now: datetime) -> str:
    text = str(value)
    if relative := _RELATIVE.match(text):
        return (now - timedelta(**{_UNITS[relative[2]]: int(relative[1])})).isoformat()
    at = parse_datetime(text)
    if at is None or at.tzinfo is None:
        raise ValueError("must be a time with its zone (2026-01-31T12:00:00Z) or an age such as 24h")
    try:
        return at.astimezone(UTC).isoformat()
    except OverflowError:
        raise ValueError("is outside of the years 1 to 9999") from None


def _ids(value: Any, now: datetime) -> list[int]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_IDS:
        raise ValueError(f"must list 1 to {MAX_IDS} ids")
    return sorted({_number(one, now) for one in value})


def _true(value: Any, _now: datetime) -> bool:
    if value is not True:
        raise ValueError("can only be true")
    return True


def _texts(value: Any, now: datetime) -> list[str]:
    if not isinstance(value, list) or len(value) > 50:
        raise ValueError("must be a list of texts")
    return [_text(one, now) for one in value]


_READ: dict[str, Callable[[Any, datetime], Any]] = {
    **dict.fromkeys(("endpoint", "batch", "status_code"), _number),
    **dict.fromkeys(("since", "until"), _time),
    "ids": _ids,
    "all": _true,
    "types": _texts,
}


def _at(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


def _dead_deliveries(asked: dict[str, Any], subscriber: str | None) -> QuerySet[Delivery]:
    rows = delivery_side.dead_letters(
        endpoint=asked.get("endpoint"),
        subscriber=subscriber if subscriber is not None else asked.get("subscriber"),
        outcome=asked.get("outcome", ""),
        status_code=asked.get("status_code"),
        group=asked.get("fingerprint", ""),
        since=_at(asked.get("since")),
        until=_at(asked.get("until")),
    )
    return rows.filter(pk__in=asked["ids"]) if "ids" in asked else rows


def _dead_tasks(asked: dict[str, Any], subscriber: str | None) -> QuerySet[Task]:
    kind, _, code = asked.get("fingerprint", "").partition("/")
    rows = task_side.dead_letters(
        subscriber if subscriber is not None else asked.get("subscriber"),
        asked.get("kind", kind),
        asked.get("error_code", code if kind else None),
        asked.get("batch"),
    )
    return _narrowed(rows, asked, "finished_at")


def _open_tasks(asked: dict[str, Any], subscriber: str | None) -> QuerySet[Task]:
    rows = Task.objects.filter(state__in=OPEN_STATES)
    owner = subscriber if subscriber is not None else asked.get("subscriber")
    conditions = {
        "subscriber": owner,
        "kind": asked.get("kind"),
        "batch_id": asked.get("batch"),
        "state": asked.get("state"),
        "reference": asked.get("reference"),
    }
    rows = rows.filter(**{name: value for name, value in conditions.items() if value is not None})
    return _narrowed(rows, asked, "created_at")


def _narrowed(rows: QuerySet, asked: dict[str, Any], moment: str) -> QuerySet:
    if "ids" in asked:
        rows = rows.filter(pk__in=asked["ids"])
    if since := _at(asked.get("since")):
        rows = rows.filter(**{f"{moment}__gte": since})
    if until := _at(asked.get("until")):
        rows = rows.filter(**{f"{moment}__lt": until})
    return rows


def _replayable(asked: dict[str, Any], subscriber: str | None) -> QuerySet:
    endpoint = Endpoint.objects.filter(pk=asked["endpoint"], deleted_at=None).first()
    if endpoint is None or (subscriber is not None and endpoint.subscriber != subscriber):
        raise BadInput("filter.endpoint: there is no such endpoint.", code="endpoint_not_found")
    since = _at(asked.get("since"))
    if since is None and "ids" not in asked:
        raise BadInput("filter.since: name the time to replay from, or the events by ids.", code="since_required")
    return replays.events_for(
        endpoint,
        event_ids=asked.get("ids"),
        since=since,
        until=_at(asked.get("until")),
        types=asked.get("types", ()),
    )


def _redrive_deliveries(ids: Sequence[int], operation: Operation) -> Outcomes:
    dead = Delivery.objects.filter(pk__in=ids, state=DeliveryState.DEAD_LETTER)
    before = dict(dead.values_list("pk", "fingerprint"))
    delivery_verbs.redrive(list(before), actor=operation.actor, reason=operation.reason)
    still = set(dead.values_list("pk", flat=True))  # its endpoint was deleted
    return _outcomes(
        ids, {pk: fp for pk, fp in before.items() if pk not in still}, "is no dead letter of a live endpoint"
    )


def _discard_deliveries(ids: Sequence[int], operation: Operation) -> Outcomes:
    dead = Delivery.objects.filter(pk__in=ids, state=DeliveryState.DEAD_LETTER)
    before = dict(dead.values_list("pk", "fingerprint"))
    delivery_verbs.discard(list(before), actor=operation.actor, reason=operation.reason)
    return _outcomes(ids, before, "is no dead letter any more")


def _redrive_tasks(ids: Sequence[int], operation: Operation) -> Outcomes:
    codes = {
        pk: f"{kind}/{code}"
        for pk, kind, code in Task.objects.filter(pk__in=ids).values_list("pk", "kind", "error_code")
    }
    moved = task_verbs.redrive(ids, actor=operation.actor, reason=operation.reason, cause=Cause.OPERATOR)
    return _outcomes(ids, {pk: codes.get(pk, "") for pk in moved}, "is no dead letter any more")


def _cancel_tasks(ids: Sequence[int], operation: Operation) -> Outcomes:
    words = task_verbs.cancel(ids, actor=operation.actor, reason=operation.reason, cause=Cause.OPERATOR)
    done = {pk: word for pk, word in words.items() if word != "refused"}
    return _outcomes(ids, done, "was finished already")


def _replay_events(ids: Sequence[int], operation: Operation) -> Outcomes:
    made = replays.replay(
        operation.filter["endpoint"], actor=operation.actor, reason=operation.reason, event_ids=list(ids)
    )
    note = f"{made.deliveries} of {len(ids)} events replayed"
    return dict.fromkeys(ids, (DONE if made.deliveries else SKIPPED, note))


def _outcomes(ids: Sequence[int], done: dict[int, str], otherwise: str) -> Outcomes:
    return {pk: (DONE, done[pk]) if pk in done else (SKIPPED, otherwise) for pk in ids}


_DELIVERY_FILTER = frozenset({"endpoint", "subscriber", "outcome", "status_code", "fingerprint", "since", "until"})
_TASK_FILTER = frozenset({"kind", "error_code", "batch", "subscriber", "fingerprint", "since", "until"})
_OPEN_FILTER = frozenset({"kind", "batch", "state", "subscriber", "reference", "since", "until"})
_EVENT_FILTER = frozenset({"endpoint", "types", "since", "until"})

VERBS: dict[str, BulkVerb] = {
    Operation.Verb.REDRIVE_DELIVERIES: BulkVerb(
        _DELIVERY_FILTER, _dead_deliveries, _redrive_deliveries, True, permission="delivery.redrive_delivery"
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
    ),
    Operation.Verb.REDRIVE_TASKS: BulkVerb(
        _TASK_FILTER, _dead_tasks, _redrive_tasks, True, permission="tasks.redrive_task"
    ),
    Operation.Verb.CANCEL_TASKS: BulkVerb(_OPEN_FILTER, _open_tasks, _cancel_tasks, permission="tasks.cancel_task"),
}


def returned(verb: str, before: dict[int, str]) -> tuple[list[int], int]:
    """Of these canaries (id → its old failure): which failed the same way again, and how many are not decided yet."""
    if verb == Operation.Verb.REDRIVE_DELIVERIES:
        return _returned_deliveries(before)
    rows = Task.objects.filter(pk__in=before).values_list("pk", "state", "kind", "error_code")
    again = [pk for pk, state, kind, code in rows if state in _TASK_BAD and f"{kind}/{code}" == before[pk]]
    undecided = [pk for pk, state, _kind, _code in rows if state not in (*_TASK_BAD, "succeeded", "cancelled")]
    return again, len(undecided)


_TASK_BAD = (TaskState.RETRYING.value, TaskState.DEAD_LETTER.value)


def _returned_deliveries(before: dict[int, str]) -> tuple[list[int], int]:
    again, undecided = [], 0
    for row in Delivery.objects.filter(pk__in=before):
        if row.state in (DeliveryState.FAILED, DeliveryState.DEAD_LETTER) and row.attempt_count:
            failure = row.fingerprint
            if row.state == DeliveryState.FAILED:  # the fingerprint is written at death; ask what it would be now
                failure = delivery_side.fingerprint(
                    row.endpoint_id, row.last_outcome, row.last_status_code, row.last_error
                )
            if failure == before[row.pk]:
                again.append(row.pk)
        elif row.state in (DeliveryState.PENDING, DeliveryState.IN_FLIGHT, DeliveryState.FAILED):
            undecided += 1
    return again, undecided


def held_words(verb: str, before: dict[int, str]) -> str:
    """What to press where canaries cannot go out because their endpoint is held; empty otherwise."""
    if verb != Operation.Verb.REDRIVE_DELIVERIES:
        return ""
    held = Endpoint.objects.filter(deliveries__in=list(before)).filter(delivery_stats.HELD).distinct()[:3]
    names = ", ".join(endpoint.name or endpoint.host for endpoint in held)
    return f" Held at the moment: {names}; resume or enable it, or wait for its breaker." if names else ""
