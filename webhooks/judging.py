"""From stored bytes to outcomes: parse by the provider's adapter, apply each update, keep the best of what came out.

Every update goes through `tasks.external`, in transactions of its own, and is judged against the task as it is then. So
what an event has done is not done again, however often or at whatever moment it is judged; one that was ignored may
count the next time. Must never judge a signature: the stored verdict counts.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction

from kernel import correlation
from kernel.parsing import mended
from tasks import external
from tasks.external import Applied
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
APPLY_CHUNK = 200
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


def parse(provider: Provider, content: bytes, headers: dict[str, str]) -> list[ProviderUpdate]:
    """The adapter's reading of the body; `NotParseable` whatever it stumbles over, since strangers write bodies."""
    try:
        return [storable(update) for update in provider.parse(content, headers).updates]
    except (InterfaceError, OperationalError):
        raise
    except Unparseable as error:
        raise NotParseable(str(error)) from error
    except Exception as error:
        log.warning("inbound_not_parseable", provider=provider.name, error=type(error).__name__)
        raise NotParseable from error


def storable(update: ProviderUpdate) -> ProviderUpdate:
    """As our rows can hold it, whatever the adapter let through: a text that no row takes would break the others."""
    texts = (update.job_id, update.item_key, update.raw_status, update.error_code, update.error_text, update.problem)
    if all(mended(text) is text for text in texts) and max(len(texts[0]), len(texts[1])) <= ID_LENGTH:
        return update
    if any(mended(text) != text or len(text) > ID_LENGTH for text in texts[:2]):
        return ProviderUpdate("", problem=f"its job id is longer than {ID_LENGTH} characters, or cannot be stored")
    raw_status, error_code, error_text, problem = map(mended, texts[2:])
    return replace(update, raw_status=raw_status, error_code=error_code, error_text=error_text, problem=problem)


def judge(
    event: InboundEvent, provider: Provider, content: bytes, now: datetime, *, again: bool = False
) -> list[Result]:
    """Parse and apply the event, and store the outcome on its row; returns what came out this time.

    A swept event (it has results) repeats only the updates that may still change; `again` repeats all of them.
    Raises `NotParseable`, and Django's OperationalError while the database is away: the event then stays unjudged.
    """
    updates = parse(provider, content, event.headers)
    known = _concerned(provider.name, updates)
    with correlation.bind(known.correlation_id or event.correlation_id):
        old = event.results if len(event.results) == len(updates) and not again else []
        results = _apply_all(provider.name, updates, old, now - event.received_at)
        _store(event, results, known, now)
        log.info(
            "inbound_event_judged",
            inbound_event=event.pk,
            source=event.source,
            outcome=event.outcome,
            reason=event.reason,
            jobs=len(results),
        )
    return results


def _concerned(provider: str, updates: Sequence[ProviderUpdate]) -> Concerned:
    ids = list(dict.fromkeys(update.job_id for update in updates if update.job_id))
    correlation_id, subscribers = "", set()
    for start in range(0, len(ids), LOOKUP_CHUNK):
        jobs = ExternalJob.objects.filter(provider=provider, job_id__in=ids[start : start + LOOKUP_CHUNK])
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
    return [
        _result(update, done.status, done.reason or "", done.task_id)
        for update, done in zip(updates, applied, strict=True)
    ]


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
        row.results = merge(row.results, results)
        row.outcome, row.reason = whole(row.results)
        pending = [PATIENCE[result["reason"]] for result in row.results if is_pending(result)]
        row.parked_until = row.received_at + max(pending) if pending else None
        row.subscribers = known.subscribers
        row.correlation_id = known.correlation_id or row.correlation_id
        row.judged_at = now
        fields = ("results", "outcome", "reason", "parked_until", "subscribers", "correlation_id", "judged_at")
        row.save(update_fields=fields)
    for name in fields:
        setattr(event, name, getattr(row, name))
