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
from tasks.engine.writing import insert_alike
from tasks.errors import BadBatch, InvalidInput
from tasks.kinds import Kind, following
from tasks.models import MAX_BATCH, Batch, FollowUp, KindPolicy, Task, Transition
from tasks.states import Cause, State
from tasks.terms import Terms, keys_free, wrong

MAX_ERRORS = 100  # a list of ten thousand wrong rows helps nobody
MAX_REFERENCE, MAX_SUBSCRIBER = 200, 100
ITEM_FIELDS = frozenset({"input", "reference", "priority", "unique_key"})
CHUNK = 2_000
Row = tuple[dict[str, Any], str, Terms]


def submit(
    kind: str,
    input: Mapping[str, Any],
    *,
    caller: str,
    subscriber: str = "",
    run_at: datetime | None = None,
    reference: str = "",
    priority: str = "normal",
    expires_at: datetime | None = None,
    unique_key: str = "",
    unique_while: str = "open",
    cause: Cause = Cause.API,
    actor: str = "",
    correlation_id: str | None = None,
    then: Any = None,
) -> Task:
    """Make a task. Raises UnknownKind, InvalidInput, NoProvider, UniqueTaken; then nothing is stored.

    `then` is what follows it. `priority` is high, normal or low. Not started after `expires_at`. While another task
    holds `unique_key` (within kind and subscriber, for as long as `unique_while` says) there is none.
    """
    found = kinds.get(kind)
    stored = found.checked(input)
    _refuse_bad_names(subscriber, reference)
    steps = following.checked(found.name, then, is_batch=False)
    policy = kinds.policy_for(found.name)
    kinds.require_provider(found, policy)
    terms = Terms(priority, expires_at, unique_key, unique_while)
    task = _task(found, policy, stored, clock.now(), run_at, reference, terms)
    task.caller, task.subscriber, task.then = caller[:80], subscriber, steps
    task.correlation_id = correlation_id or correlation.current()
    with transaction.atomic():
        with keys_free([task]):
            task.save(force_insert=True)
        _step(task, cause, actor or caller).save(force_insert=True)
        _hint_and_wake(found, f"task:{task.pk}")
    return task


def submit_batch(
    kind: str,
    items: Sequence[Mapping[str, Any]],
    *,
    caller: str,
    subscriber: str = "",
    reference: str = "",
    priority: str = "normal",
    expires_at: datetime | None = None,
    unique_while: str = "open",
    cause: Cause = Cause.API,
    actor: str = "",
    correlation_id: str | None = None,
    then: Any = None,
    follow_up: FollowUp | None = None,
) -> Batch:
    """Make a batch of `{input, reference?, priority?, unique_key?}` items, all or none; errors' fields start with
    `tasks.<index>.`. An item's own priority goes before the batch's.

    `then` is what follows it, `follow_up` what it was made by. Raises UnknownKind, BadBatch, InvalidInput, NoProvider,
    UniqueTaken; then nothing is stored.
    """
    found = kinds.get(kind)
    _refuse_bad_names(subscriber, reference)
    steps = following.checked(found.name, then, is_batch=True)
    now = clock.now()
    terms = Terms(priority, expires_at, "", unique_while).checked(now)
    rows = _checked(found, items, terms, now)
    policy = kinds.policy_for(found.name)
    kinds.require_provider(found, policy)
    batch = Batch(
        kind=found.name,
        subscriber=subscriber,
        caller=caller[:80],
        reference=reference,
        correlation_id=correlation_id or correlation.current(),
        total=len(rows),
        counts={State.QUEUED.value: len(rows)},
        then=steps,
        follow_up=follow_up,
    )
    with transaction.atomic():
        batch.save()
        if all(own is terms for _, _, own in rows):
            _store_alike(_task(found, policy, {}, now, None, "", terms), batch, rows, cause, actor or caller)
        else:
            _store(found, policy, batch, rows, now, cause, actor or caller)
        _hint_and_wake(found, f"batch:{batch.pk}")
    return batch


def _store_alike(sample: Task, batch: Batch, rows: Sequence[Row], cause: Cause, actor: str) -> None:
    """Tasks that differ in input and reference alone: one statement for all of them, and one for their first steps."""
    sample.batch, sample.correlation_id = batch, batch.correlation_id
    sample.caller, sample.subscriber = batch.caller, batch.subscriber
    differs = [{"position": at, "input": stored, "reference": name} for at, (stored, name, _) in enumerate(rows)]
    made = insert_alike(sample, differs)
    insert_alike(_step(sample, cause, actor), [{"task_id": pk} for pk in made])


def _store(
    kind: Kind, policy: KindPolicy, batch: Batch, rows: Sequence[Row], now: datetime, cause: Cause, actor: str
) -> None:
    """Tasks of which some have a priority or a key of their own."""
    tasks = [_task(kind, policy, stored, now, None, name, own) for stored, name, own in rows]
    for position, task in enumerate(tasks):
        task.batch, task.position = batch, position
        task.caller, task.subscriber, task.correlation_id = batch.caller, batch.subscriber, batch.correlation_id
    with keys_free(tasks):
        Task.objects.bulk_create(tasks, batch_size=CHUNK)
    Transition.objects.bulk_create([_step(task, cause, actor) for task in tasks], batch_size=CHUNK)


def _task(
    kind: Kind,
    policy: KindPolicy,
    stored: dict[str, Any],
    now: datetime,
    run_at: datetime | None,
    reference: str,
    terms: Terms,
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
        **terms.checked(due).fields(),
    )


def _checked(kind: Kind, items: Any, terms: Terms, now: datetime) -> list[Row]:
    """(input, reference, terms) of every item; one error tells of all wrong ones, up to a hundred."""
    if not isinstance(items, Sequence) or isinstance(items, str) or not items:
        raise BadBatch("A batch needs a list of at least one task.")
    if len(items) > MAX_BATCH:
        raise BadBatch(f"A batch may have at most {MAX_BATCH} tasks; this one has {len(items)}. Send it in parts.")
    rows, errors = [], []
    for index, item in enumerate(items):
        try:
            rows.append(_item(kind, item, terms, now))
        except InvalidInput as error:
            errors += [{**row, "field": f"tasks.{index}.{row['field']}"} for row in error.errors]
            if len(errors) >= MAX_ERRORS:
                break
    if errors:
        raise InvalidInput(f"{errors[0]['field']}: {errors[0]['detail']}", errors=errors[:MAX_ERRORS])
    return rows


def _item(kind: Kind, item: Any, terms: Terms, now: datetime) -> Row:
    if not isinstance(item, Mapping):
        raise wrong("input", "wrong_type", "A task must be an object with an input.")
    unknown = sorted(map(str, item.keys() - ITEM_FIELDS))
    if unknown:
        words = f"There is no such field; there are {', '.join(sorted(ITEM_FIELDS))}."
        raise wrong(unknown[0][:60], "unknown_field", words)
    reference = item.get("reference") or ""
    _refuse_bad_names("", reference)
    own = terms.of_item(item)
    if own is not terms:
        own.checked(now)
    try:
        return kind.checked(item.get("input", {})), reference, own
    except InvalidInput as error:
        for row in error.errors:
            row["field"] = row["field"] if row["field"] == "input" else f"input.{row['field']}"
        raise


def _refuse_bad_names(subscriber: Any, reference: Any) -> None:
    names = (("subscriber", subscriber, MAX_SUBSCRIBER), ("reference", reference, MAX_REFERENCE))
    for field, value, longest in names:
        if not isinstance(value, str) or len(value) > longest or "\x00" in value:
            raise wrong(field, "too_long", f"This must be text of at most {longest} characters.")


def _step(task: Task, cause: Cause, actor: str) -> Transition:
    return Transition.of(task, to_state=task.state, cause=cause, reason="submitted", actor=actor)


def _hint_and_wake(kind: Kind, topic: str) -> None:
    touched(topic, "tasks", "stats")
    wake.after_commit(wake.START if kind.is_external else wake.RUN_INTERNAL)
