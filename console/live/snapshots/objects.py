"""Snapshots of one object: a task, a batch, a delivery, an endpoint, an operation. A handful of queries each."""

from typing import Any

from console.live.snapshots import changes
from console.live.topics import Topic
from console.models import Operation
from delivery import stats as delivery_stats
from delivery.models import Attempt, Delivery, Endpoint, lean
from delivery.policy import telling
from delivery.states import State as DeliveryState
from tasks.models import Batch, ExternalJob, KindPolicy, Task
from tasks.reading import stats as task_stats
from tasks.states import FINAL_STATES, State

Found = tuple[str | None, dict[str, Any]] | None
TROUBLE_SHOWN, TEXT_SHOWN, COUNT_CAP = 10, 300, 10_000

STATE_LABELS = dict(State.choices)
DELIVERY_LABELS = dict(DeliveryState.choices)


def task(topic: Topic) -> Found:
    row = Task.objects.defer("input", "result").filter(pk=topic.pk).first()
    if row is None:
        return None
    jobs = list(ExternalJob.objects.filter(task=row).order_by("-attempt")[:10])
    return row.subscriber, {
        **task_row(row),
        "correlation_id": row.correlation_id,
        "error_text": row.error_text[:TEXT_SHOWN],
        "attempt_limit": row.attempt_limit,
        "next_attempt_at": None if row.is_final else row.next_attempt_at,
        "cancel_requested_at": row.cancel_requested_at,
        "changes": changes.of_task(row),
        "jobs": [_job(one) for one in jobs],
    }


def task_row(row: Task) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "kind": row.kind,
        "batch": str(row.batch_id) if row.batch_id else None,
        "position": row.position,
        "reference": row.reference,
        "subscriber": row.subscriber,
        "state": row.state,
        "state_label": STATE_LABELS.get(row.state, row.state),
        "final": row.is_final,
        "progress": row.progress,
        "attempt_count": row.attempt_count,
        "error_code": row.error_code,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "finished_at": row.finished_at,
    }


def _job(row: ExternalJob) -> dict[str, Any]:
    return {
        "provider": row.provider,
        "job_id": row.job_id,
        "attempt": row.attempt,
        "state": row.state,
        "provider_status": row.provider_status,
        "finished_by": row.finished_by,
        "submitted_at": row.submitted_at,
        "finished_at": row.finished_at,
        "last_webhook_at": row.last_webhook_at,
        "last_polled_at": row.last_polled_at,
    }


def batch(topic: Topic) -> Found:
    row = Batch.objects.filter(pk=topic.pk).first()
    if row is None:
        return None
    tasks = Task.objects.filter(batch=row)
    noticed = task_stats.noticed_by(ExternalJob.objects.filter(task__batch=row))
    return row.subscriber, {
        **batch_row(row),
        "correlation_id": row.correlation_id,
        "noticed": noticed,
        "notice": task_stats.silence_words(noticed),
        "held": _held_words(row),
        "troubled": [_trouble(one) for one in _troubled(tasks)],
        "changes": changes.of_batch(row),
    }


def batch_row(row: Batch) -> dict[str, Any]:
    counts = {state: int(row.counts.get(state, 0)) for state in State.values}
    finished = sum(counts[state] for state in FINAL_STATES)
    return {
        "id": str(row.pk),
        "kind": row.kind,
        "reference": row.reference,
        "subscriber": row.subscriber,
        "state": row.state,
        "outcome": row.outcome or None,
        "headline": _headline(row, counts, finished),
        "revision": row.revision,
        "total": row.total,
        "counts": counts,
        "finished": finished,
        "percent": 100 * finished // row.total if row.total else 0,
        "shares": {state: round(100 * count / row.total, 2) if row.total else 0 for state, count in counts.items()},
        "states": [
            {"state": state, "label": STATE_LABELS[state], "count": counts[state]}
            for state in State.values
            if counts[state]
        ],
        "created_at": row.created_at,
        "completed_at": row.completed_at,
    }


def _headline(row: Batch, counts: dict[str, int], finished: int) -> str:
    dead = counts[State.DEAD_LETTER]
    if not row.is_completed:
        ending = f", {dead} of them dead letters" if dead else ""
        return f"{finished} of {row.total} finished{ending}"
    if row.outcome == "all_succeeded":
        return f"All {row.total} succeeded"
    parts = [f"{counts[State.SUCCEEDED]} of {row.total} succeeded"]
    if dead:
        parts.append(f"{dead} dead letters wait for you")
    if counts[State.CANCELLED]:
        parts.append(f"{counts[State.CANCELLED]} cancelled")
    return ", ".join(parts)


def _held_words(row: Batch) -> str:
    waiting = int(row.counts.get(State.QUEUED, 0))
    if waiting and KindPolicy.objects.filter(kind=row.kind, is_paused=True).exists():
        return f"{waiting} wait because the kind {row.kind} is paused. Resume it under Kind policies."
    return ""


def _troubled(tasks: Any) -> list[Task]:
    states = [State.DEAD_LETTER, State.RETRYING]
    return list(tasks.filter(state__in=states).defer("input", "result").order_by("state", "id")[:TROUBLE_SHOWN])


def _trouble(row: Task) -> dict[str, Any]:
    return {**task_row(row), "error_text": row.error_text[:TEXT_SHOWN]}


def delivery(topic: Topic) -> Found:
    rows = lean(Delivery.objects.select_related("event", "endpoint").defer("event__payload"), "endpoint__")
    row = rows.filter(pk=topic.pk).first()
    if row is None:
        return None
    attempts = Attempt.objects.filter(delivery=row).defer("response_head").order_by("-started_at", "-id")[:10]
    return row.event.subscriber, {
        **delivery_row(row),
        "last_error": telling.error_for_keys(row.last_outcome, row.last_error),  # one snapshot for every viewer
        "cancel_reason": row.cancel_reason,
        "redrive_count": row.redrive_count,
        "correlation_id": row.event.correlation_id,
        "attempts": [_attempt(one) for one in attempts],
    }


def delivery_row(row: Delivery) -> dict[str, Any]:
    return {
        "id": str(row.pk),
        "event": str(row.event_id),
        "type": row.event.type,
        "endpoint": str(row.endpoint_id),
        "host": row.endpoint.host,
        "state": row.state,
        "state_label": DELIVERY_LABELS.get(row.state, row.state),
        "final": row.is_final,
        "held": row.endpoint.is_held and not row.is_final,
        "attempt_count": row.attempt_count,
        "next_attempt_at": None if row.is_final or row.awaits_turn else row.next_attempt_at,
        "last_outcome": row.last_outcome,
        "last_status_code": row.last_status_code,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }


def _attempt(row: Attempt) -> dict[str, Any]:
    return {
        "number": row.number,
        "cycle": row.cycle,
        "outcome": row.outcome,
        "status_code": row.status_code,
        "started_at": row.started_at,
        "total_ms": row.total_ms,
        "is_probe": row.is_probe,
    }


def endpoint(topic: Topic) -> Found:
    row = lean(Endpoint.objects.select_related("health")).filter(pk=topic.pk).first()
    if row is None:
        return None
    health = getattr(row, "health", None)
    counts = delivery_stats.unfinished_at(row.pk, COUNT_CAP)
    return row.subscriber, {
        "id": str(row.pk),
        "name": row.name,
        "host": row.host,
        "subscriber": row.subscriber,
        "state": row.state,
        "hold_reason": row.hold_reason,
        "breaker": health.breaker_state if health else "closed",
        "consecutive_failures": health.consecutive_failures if health else 0,
        "probe_at": health.probe_at if health else None,
        "throttled_until": health.throttled_until if health else None,
        "wait_reason": health.wait_reason if health else "",
        "pace_per_second": health.pace_per_second if health else None,
        "p50_ms": health.p50_ms if health else None,
        "p95_ms": health.p95_ms if health else None,
        "p99_ms": health.p99_ms if health else None,
        "sample_count": health.sample_count if health else 0,
        "counts": {state: count.number for state, count in counts.items() if count.number},
        "counts_capped_at": COUNT_CAP,
    }


def operation(topic: Topic) -> Found:
    row = Operation.objects.filter(pk=topic.pk).first()
    if row is None:
        return None
    handled = row.done_count + row.skipped_count + row.failed_count
    return row.subscriber or None, {
        "id": str(row.pk),
        "verb": row.verb,
        "verb_label": row.get_verb_display(),
        "state": row.state,
        "state_label": row.get_state_display(),
        "detail": row.detail,
        "target_count": row.target_count,
        "done_count": row.done_count,
        "skipped_count": row.skipped_count,
        "failed_count": row.failed_count,
        "percent": min(100, 100 * handled // row.target_count) if row.target_count else 100,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
    }
