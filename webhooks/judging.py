"""From stored bytes to outcomes: parse by the provider's adapter, apply each update, keep the best of what came out.

Every update goes through `tasks.external`, in transactions of its own, and is judged against the task as it is then. So
what an event has done is not done again, however often or at whatever moment it is judged; one that was ignored may
count the next time. Must never judge a signature: the stored verdict counts.
"""

import time
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction

from kernel import correlation
from kernel.parsing import mended
from kernel.web.together import Gatherer
from tasks import external
from tasks.engine.writing import update_rows
from tasks.external import Applied, references
from tasks.models import ExternalJob
from tasks.providers.base import Provider, ProviderUpdate, Unparseable
from tasks.states import Cause, Reason
from webhooks.models import InboundEvent, InboundOutcome, Refusal

BUDGET_SECONDS = 8.0  # providers hang up after ten; what is left is deferred to the sweep
PATIENCE = {  # results that may still change, and for how long
    Reason.PARKED.value: timedelta(minutes=10),
    Refusal.DEFERRED.value: timedelta(hours=1),
    Refusal.APPLY_FAILED.value: timedelta(hours=1),
}
LOOKUP_CHUNK = 5_000
APPLY_CHUNK = 1_000
JUDGED = ("results", "outcome", "reason", "parked_until", "subscribers", "correlation_id", "judged_at")
ID_LENGTH = 200  # of a job's and an item's id, as our columns hold them
Result = dict[str, Any]
log = structlog.get_logger(__name__)


class NotParseable(Exception):
    """The body is not this provider's payload; `detail` says why, where the adapter does."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = mended(detail)[:300]


@dataclass(frozen=True)
class Concerned:
    """Whose tasks an event speaks of, and the journey of the first of them."""

    correlation_id: str
    subscribers: list[str]


def parse(provider: Provider, content: bytes, headers: dict[str, str]) -> tuple[list[ProviderUpdate], str]:
    """The adapter's reading of the body, and the provider's batch that it names; `NotParseable` whatever it stumbles
    over, since strangers write bodies."""
    try:
        said = provider.parse(content, headers)
        return [storable(update) for update in said.updates], mended(said.batch_id)[:ID_LENGTH]
    except (InterfaceError, OperationalError):
        raise
    except Unparseable as error:
        raise NotParseable(str(error)) from error
    except Exception as error:
        log.warning("inbound_not_parseable", provider=provider.name, error=type(error).__name__)
        raise NotParseable from error


def storable(update: ProviderUpdate) -> ProviderUpdate:
    """As our rows can hold it, whatever the adapter let through: a text that no row takes would break the others."""
    if update.reference != mended(update.reference)[: references.LENGTH]:
        update = replace(update, reference="")  # none that we ever gave
    texts = (update.job_id, update.item_key, update.raw_status, update.error_code, update.error_text, update.problem)
    if all(mended(text) is text for text in texts) and max(len(texts[0]), len(texts[1])) <= ID_LENGTH:
        return update
    if any(mended(text) != text or len(text) > ID_LENGTH for text in texts[:2]):
        return ProviderUpdate("", problem=f"its job id is longer than {ID_LENGTH} characters, or cannot be stored")
    raw_status, error_code, error_text, problem = map(mended, texts[2:])
    return replace(update, raw_status=raw_status, error_code=error_code, error_text=error_text, problem=problem)


def _with_reference(updates: list[ProviderUpdate], reference: str) -> list[ProviderUpdate]:
    """The URL's reference belongs to the one job that is spoken of; what an update itself carries goes before it."""
    if not reference or len({update.job_id for update in updates}) != 1:
        return updates
    return [update if update.reference else replace(update, reference=reference) for update in updates]


def judge(
    event: InboundEvent, provider: Provider, content: bytes, now: datetime, *, again: bool = False
) -> list[Result]:
    """Parse and apply the event, and store the outcome on its row; returns what came out this time.

    A swept event (it has results) repeats only the updates that may still change; `again` repeats all of them.
    Raises `NotParseable`, and Django's OperationalError while the database is away: the event then stays unjudged.
    """
    said, batch_id = parse(provider, content, event.headers)
    updates = external.spread(provider.name, _with_reference(said, event.reference), batch_id)
    # Taking up a start by its reference is a transaction of its own, so such an event is none of a set.
    is_plain = not any(update.reference for update in updates)
    if is_plain and not again and event.judged_at is None and len(updates) <= APPLY_CHUNK:
        told = _gathered.take(Waiting(event, provider.name, updates, now))
        if told is not None:
            return told
    return _alone(event, provider, updates, now, again=again)


def _alone(
    event: InboundEvent, provider: Provider, updates: Sequence[ProviderUpdate], now: datetime, *, again: bool
) -> list[Result]:
    """In transactions of its own, so that a fault of ours costs as little as it can."""
    known = _concerned(provider.name, updates)
    with correlation.bind(known.correlation_id or event.correlation_id):
        old = event.results if len(event.results) == len(updates) and not again else []
        results = _apply_all(provider.name, updates, old, now - event.received_at)
        _store(event, results, known, now)
        _log(event)
    return results


def _log(event: InboundEvent) -> None:
    log.info(
        "inbound_event_judged",
        inbound_event=event.pk,
        source=event.source,
        outcome=event.outcome,
        reason=event.reason,
        jobs=len(event.results),
    )


@dataclass(frozen=True)
class Waiting:
    """An event that nobody has judged yet, and what it says."""

    event: InboundEvent
    provider: str
    updates: Sequence[ProviderUpdate]
    now: datetime


def _judge_set(waiting: Sequence[Waiting]) -> list[list[Result]]:
    """Events that came at the same time: applied and stored in one transaction, all or none."""
    rows: dict[int, InboundEvent] = {}
    with transaction.atomic():
        for provider in sorted({one.provider for one in waiting}):
            rows |= _judged_by(provider, [one for one in waiting if one.provider == provider])
        unjudged = InboundEvent.objects.filter(judged_at=None)
        if update_rows(unjudged, list(rows.values()), JUDGED) != len(waiting):
            raise LostRace("another call has judged one of these events meanwhile")
    for one in waiting:
        _take_over(one.event, rows[one.event.pk])
        with correlation.bind(one.event.correlation_id):
            _log(one.event)
    return [one.event.results for one in waiting]


class LostRace(RuntimeError):
    """The set is rolled back, and each event judged for itself."""


def _judged_by(provider: str, waiting: Sequence[Waiting]) -> dict[int, InboundEvent]:
    """What their rows are to say, by id; the events themselves change only when that is stored."""
    updates = [update for one in waiting for update in one.updates]
    journeys = _journeys(provider, updates)
    applied = external.apply_many(updates, provider=provider, cause=Cause.WEBHOOK, savepoint=False)
    done = iter(_strangers_again(provider, updates, applied))
    rows = {}
    for one in waiting:
        told = [_told(update, next(done)) for update in one.updates]
        known = [row for update in one.updates for row in journeys.get(update.job_id, ())]
        row = copy(one.event)
        row.subscribers = sorted({subscriber for subscriber, _ in known} - {""})
        row.correlation_id = next((journey for _, journey in known if journey), row.correlation_id)
        _settled(row, [_give_up(result, one.now - row.received_at) for result in told], one.now)
        rows[row.pk] = row
    return rows


def _journeys(provider: str, updates: Sequence[ProviderUpdate]) -> dict[str, list[tuple[str, str]]]:
    """Subscribers and journeys of each job that is known."""
    ids = {update.job_id for update in updates if update.job_id}
    jobs = ExternalJob.objects.filter(provider=provider, job_id__in=ids).order_by()
    found: dict[str, list[tuple[str, str]]] = {}
    for job_id, *row in jobs.values_list("job_id", "task__subscriber", "task__correlation_id"):
        found.setdefault(job_id, []).append((row[0], row[1]))
    return found


_gathered: Gatherer[Waiting, list[Result]] = Gatherer(_judge_set, APPLY_CHUNK, lambda one: len(one.updates))


def _concerned(provider: str, updates: Sequence[ProviderUpdate]) -> Concerned:
    ids = list(dict.fromkeys(update.job_id for update in updates if update.job_id))
    named = references.of(provider, {update.reference for update in updates if update.reference})
    ours = ExternalJob.objects.filter(provider=provider)
    groups = [ours.filter(job_id__in=ids[start : start + LOOKUP_CHUNK]) for start in range(0, len(ids), LOOKUP_CHUNK)]
    if named:
        groups.append(ours.filter(pk__in=[job.pk for job in named.values()]))
    correlation_id, subscribers = "", set()
    for jobs in groups:
        rows = jobs.values_list("task__subscriber", "task__correlation_id").order_by().distinct()
        for subscriber, journey in rows:
            correlation_id = correlation_id or journey
            subscribers.add(subscriber)
    return Concerned(correlation_id, sorted(subscribers - {""}))


def _apply_all(provider: str, updates: Sequence[ProviderUpdate], old: Sequence[Result], age: timedelta) -> list[Result]:
    """Apply what is not settled, set by set; what the budget does not cover is deferred."""
    ends = time.monotonic() + BUDGET_SECONDS
    results: dict[int, Result] = {index: result for index, result in enumerate(old) if not is_pending(result)}
    open_indexes = [index for index in range(len(updates)) if index not in results]
    for start in range(0, len(open_indexes), APPLY_CHUNK):
        chunk = open_indexes[start : start + APPLY_CHUNK]
        if time.monotonic() > ends:
            outcome = [_result(updates[index], InboundOutcome.ACCEPTED, Refusal.DEFERRED) for index in chunk]
        else:
            outcome = _apply_chunk(provider, [updates[index] for index in chunk])
        results.update(zip(chunk, (_give_up(result, age) for result in outcome), strict=True))
    return [results[index] for index in range(len(updates))]


def _apply_chunk(provider: str, updates: Sequence[ProviderUpdate]) -> list[Result]:
    """One set; if a fault of ours breaks it, one by one, so that it keeps no other job from its news."""
    try:
        applied = external.apply_many(updates, provider=provider, cause=Cause.WEBHOOK)
        applied = _strangers_again(provider, updates, applied)
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("inbound_updates_failed", provider=provider, jobs=len(updates))
        if len(updates) == 1:
            return [_result(updates[0], InboundOutcome.ACCEPTED, Refusal.APPLY_FAILED)]
        return [result for update in updates for result in _apply_chunk(provider, [update])]
    return [_told(update, done) for update, done in zip(updates, applied, strict=True)]


def _told(update: ProviderUpdate, done: Applied) -> Result:
    return _result(update, done.status, done.reason or "", done.task_id)


def _strangers_again(provider: str, updates: Sequence[ProviderUpdate], applied: list[Applied]) -> list[Applied]:
    """A start call may commit its job ids between the look-up of the jobs and the question whether any start is open:
    then neither saw the other, and the event would be lost for good. Whoever is known by now is applied once more."""
    strangers = [index for index, done in enumerate(applied) if done.reason == Reason.TASK_NOT_FOUND]
    if not strangers:
        return applied
    ids = [updates[index].job_id for index in strangers]
    known = set(ExternalJob.objects.filter(provider=provider, job_id__in=ids).values_list("job_id", flat=True))
    late = [index for index in strangers if updates[index].job_id in known]
    if not late:
        return applied
    if any(updates[index].means_all_items for index in late):  # the sweep spreads it to the items that are known now
        parked = Applied(InboundOutcome.ACCEPTED.value, Reason.PARKED.value)
        return [parked if index in late else done for index, done in enumerate(applied)]
    again = external.apply_many([updates[index] for index in late], provider=provider, cause=Cause.WEBHOOK)
    found = dict(zip(late, again, strict=True))
    return [found.get(index, done) for index, done in enumerate(applied)]


def _result(update: ProviderUpdate, status: str, reason: str, task_id: int | None = None) -> Result:
    result: Result = {"job_id": update.job_id[:200], "status": str(status)}
    if update.item_key:
        result["item_key"] = update.item_key[:200]
    if reason:
        result["reason"] = str(reason)
    if update.problem:
        result["detail"] = update.problem[:200]
    if task_id:
        result["task_id"] = task_id
    return result


def is_pending(result: Result) -> bool:
    """Whether the sweep should try this one again."""
    return result["status"] == InboundOutcome.ACCEPTED and result.get("reason", "") in PATIENCE


def _give_up(result: Result, age: timedelta) -> Result:
    """A result that has been pending for too long is settled as ignored, with the reason that is then true."""
    if not is_pending(result) or age < PATIENCE[result["reason"]]:
        return result
    reason = Reason.TASK_NOT_FOUND if result["reason"] == Reason.PARKED else Refusal.APPLY_FAILED
    return {**result, "status": InboundOutcome.IGNORED.value, "reason": reason.value}


def _rank(result: Result) -> int:
    if is_pending(result):
        return 0
    return 1 if result["status"] == InboundOutcome.IGNORED else 2


def merge(old: list[Result], new: list[Result]) -> list[Result]:
    """Result by result the better one, so that a twin or a replay never hides what this event once did."""
    if len(old) != len(new):
        return new if not old or max(map(_rank, new), default=0) >= max(map(_rank, old)) else old
    return [theirs if _rank(theirs) > _rank(mine) else mine for mine, theirs in zip(old, new, strict=True)]


def whole(results: Sequence[Result]) -> tuple[str, str]:
    """InboundOutcome and reason of the whole: applied if any job was, else accepted if any, else ignored."""
    if not results:
        return InboundOutcome.IGNORED.value, Reason.UNKNOWN_EVENT.value
    present = {result["status"] for result in results}
    best_first = (InboundOutcome.APPLIED, InboundOutcome.ACCEPTED, InboundOutcome.IGNORED)
    outcome = next(word for word in best_first if word in present).value
    reasons = Counter(result.get("reason", "") for result in results if result["status"] == outcome)
    return outcome, "" if outcome == InboundOutcome.APPLIED else reasons.most_common(1)[0][0]


def _store(event: InboundEvent, results: list[Result], known: Concerned, now: datetime) -> None:
    """Write the outcome on the row, merged with what a twin may have written meanwhile."""
    with transaction.atomic():
        row = InboundEvent.objects.select_for_update().defer("body").get(pk=event.pk)
        row.subscribers = known.subscribers
        row.correlation_id = known.correlation_id or row.correlation_id
        _settled(row, merge(row.results, results), now)
        row.save(update_fields=JUDGED)
    _take_over(event, row)


def _settled(row: InboundEvent, results: list[Result], now: datetime) -> None:
    row.results, row.judged_at = results, now
    row.outcome, row.reason = whole(results)
    pending = [PATIENCE[result["reason"]] for result in results if is_pending(result)]
    row.parked_until = row.received_at + max(pending) if pending else None


def _take_over(event: InboundEvent, row: InboundEvent) -> None:
    for name in JUDGED:
        setattr(event, name, getattr(row, name))
