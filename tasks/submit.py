"""The mutation: check the request, write the durable rows, answer. Nothing here waits for a broker or a provider.

Both functions may run inside the caller's transaction (an idempotency record commits with them).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from kernel import clock, correlation
from kernel.live_hints import touched
from tasks import kinds
from tasks.engine import wake
from tasks.errors import BadBatch, InvalidInput
from tasks.kinds import Kind
from tasks.models import MAX_BATCH, Batch, KindPolicy, Task, Transition
from tasks.states import Cause, State

MAX_ERRORS = 100  # a list of ten thousand wrong rows helps nobody
MAX_REFERENCE, MAX_SUBSCRIBER = 200, 100
CHUNK = 2_000


def submit(
    kind: str,
    input: Mapping[str, Any],
    *,
    caller: str,
    subscriber: str = "",
    run_at: datetime | None = None,
    reference: str = "",
    cause: Cause = Cause.API,
    actor: str = "",
    correlation_id: str | None = None,
) -> Task:
    """Make a task. Raises UnknownKind, InvalidInput, NoProvider; then nothing is stored."""
    found = kinds.get(kind)
    stored = found.checked(input)
    _refuse_bad_names(subscriber, reference)
    policy = kinds.policy_for(found.name)
    kinds.require_provider(found, policy)
    task = _task(found, policy, stored, clock.now(), run_at, reference)
    task.caller, task.subscriber = caller[:80], subscriber
    task.correlation_id = correlation_id or correlation.current()
    with transaction.atomic():
        task.save()
        _log([task], cause, actor or caller)
        _hint_and_wake(found, f"task:{task.pk}")
    return task


def submit_batch(
    kind: str,
    items: Sequence[Mapping[str, Any]],
    *,
    caller: str,
    subscriber: str = "",
    reference: str = "",
    cause: Cause = Cause.API,
    actor: str = "",
    correlation_id: str | None = None,
) -> Batch:
    """Make a batch of `{input, reference?}` items, all or none; errors' fields start with `tasks.<index>.`.

    Raises UnknownKind, BadBatch, InvalidInput, NoProvider; then nothing is stored.
    """
    found = kinds.get(kind)
    _refuse_bad_names(subscriber, reference)
    rows = _checked(found, items)
    policy = kinds.policy_for(found.name)
    kinds.require_provider(found, policy)
    now = clock.now()
    batch = Batch(
        kind=found.name,
        subscriber=subscriber,
        caller=caller[:80],
        reference=reference,
        correlation_id=correlation_id or correlation.current(),
        total=len(rows),
        counts={State.QUEUED.value: len(rows)},
    )
    with transaction.atomic():
        batch.save()
        tasks = [_task(found, policy, stored, now, None, name) for stored, name in rows]
        for position, task in enumerate(tasks):
            task.batch, task.position = batch, position
            task.caller, task.subscriber, task.correlation_id = batch.caller, subscriber, batch.correlation_id
        Task.objects.bulk_create(tasks, batch_size=CHUNK)
        _log(tasks, cause, actor or caller)
        _hint_and_wake(found, f"batch:{batch.pk}")
    return batch


def _task(
    kind: Kind, policy: KindPolicy, stored: dict[str, Any], now: datetime, run_at: datetime | None, reference: str
) -> Task:
    due = run_at if run_at is not None and run_at > now else now
    return Task(
        kind=kind.name,
        input=stored,
        reference=reference,
        state=State.SCHEDULED if due > now else State.QUEUED,
        attempt_limit=policy.attempt_limit,
        run_at=due,
        next_attempt_at=due,
    )


def _checked(kind: Kind, items: Any) -> list[tuple[dict[str, Any], str]]:
    """(input, reference) of every item; one error tells of all wrong ones, up to a hundred."""
    if not isinstance(items, Sequence) or isinstance(items, str) or not items:
        raise BadBatch("A batch needs a list of at least one task.")
    if len(items) > MAX_BATCH:
        raise BadBatch(f"A batch may have at most {MAX_BATCH} tasks; this one has {len(items)}. Send it in parts.")
    rows, errors = [], []
    for index, item in enumerate(items):
        try:
            rows.append(_item(kind, item))
        except InvalidInput as error:
            errors += [{**row, "field": f"tasks.{index}.{row['field']}"} for row in error.errors]
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise InvalidInput(f"{errors[0]['field']}: {errors[0]['detail']}", errors=errors[:MAX_ERRORS])
    return rows


def _item(kind: Kind, item: Any) -> tuple[dict[str, Any], str]:
    if not isinstance(item, Mapping):
        raise _wrong("input", "wrong_type", "A task must be an object with an input.")
    unknown = sorted(map(str, item.keys() - {"input", "reference"}))
    if unknown:
        raise _wrong(unknown[0][:60], "unknown_field", "There is no such field; there are input, reference.")
    reference = item.get("reference") or ""
    _refuse_bad_names("", reference)
    try:
        return kind.checked(item.get("input", {})), reference
    except InvalidInput as error:
        for row in error.errors:
            row["field"] = row["field"] if row["field"] == "input" else f"input.{row['field']}"
        raise


def _refuse_bad_names(subscriber: Any, reference: Any) -> None:
    names = (("subscriber", subscriber, MAX_SUBSCRIBER), ("reference", reference, MAX_REFERENCE))
    for field, value, longest in names:
        if not isinstance(value, str) or len(value) > longest or "\x00" in value:
            raise _wrong(field, "too_long", f"This must be text of at most {longest} characters.")


def _wrong(field: str, code: str, detail: str) -> InvalidInput:
    return InvalidInput(f"{field}: {detail}", errors=[{"field": field, "code": code, "detail": detail}])


def _log(tasks: list[Task], cause: Cause, actor: str) -> None:
    rows = [Transition.of(task, to_state=task.state, cause=cause, reason="submitted", actor=actor) for task in tasks]
    Transition.objects.bulk_create(rows, batch_size=CHUNK)


def _hint_and_wake(kind: Kind, topic: str) -> None:
    touched(topic, "tasks", "stats")
    wake.after_commit(wake.START if kind.is_external else wake.RUN_INTERNAL)
