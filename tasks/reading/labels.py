"""What an operator reads of tasks: colours of states, and what happens next or what to do. Used by pages only."""

import json
from datetime import datetime
from typing import Any

from tasks import kinds
from tasks.models import Batch, ExternalJob, KindPolicy, Task
from tasks.states import FINAL_STATES, JobState, State

COLOURS = {
    "scheduled": "default",
    "queued": "info",
    "running": "primary",
    "fetching result": "primary",
    "waiting to retry": "warning",
    "succeeded": "success",
    "dead letter": "danger",
    "cancelled": "default",
}
JOB_COLOURS = {
    "being submitted": "info",
    "at the provider": "primary",
    "succeeded": "success",
    "failed": "danger",
    "cancelled": "default",
    "lost": "warning",
}
OUTCOMES = {
    "all_succeeded": "all succeeded",
    "partly": "partly succeeded",
    "none": "none succeeded",
    "": "running",
}
OUTCOME_COLOURS = {
    "all succeeded": "success",
    "partly succeeded": "warning",
    "none succeeded": "danger",
    "running": "primary",
}
PAYLOAD_SHOWN = 64 * 1024
NO_PAYLOAD = "Hidden. You need the permission “Can see inputs and results”; ask an administrator."


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else ""


def kind_title(name: str) -> str:
    kind = kinds.KINDS.get(name)
    return kind.title if kind else name


def payload(value: Any) -> str:
    """JSON for people: indented, every script readable, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if len(text) <= PAYLOAD_SHOWN else f"{text[:PAYLOAD_SHOWN]}\n… cut here; the API gives the whole."


def next_step(task: Task, job: ExternalJob | None, policy: KindPolicy | None, now: datetime) -> str:
    """One or two sentences: what happens by itself, or what a person has to do."""
    if task.state in (State.QUEUED, State.RETRYING) and (held := why_held(policy, now)):
        return held
    if task.cancel_requested_at and task.state not in FINAL_STATES:
        return "Somebody asked to cancel it. The provider is asked, and its answer decides whether it still finishes."
    match task.state:
        case State.SCHEDULED:
            return f"It is queued at {moment(task.run_at)}."
        case State.QUEUED:
            return "It starts as soon as its kind has a free slot: within seconds, if a worker is running."
        case State.RUNNING:
            return _running(job)
        case State.FETCHING:
            return "It is finished upstream. Its result is being fetched; a fetch that fails is repeated."
        case State.RETRYING:
            return f"It is tried again at {moment(task.next_attempt_at)}, by itself."
        case State.DEAD_LETTER:
            return "It gave up and waits for you. Correct the cause, then redrive it; or discard it."
        case State.CANCELLED:
            return "Nothing. It was stopped."
    return "Nothing. Its result is stored, and the event that tells of it is recorded."


def _running(job: ExternalJob | None) -> str:
    if job is None:
        return "One of our workers is at it. Should the worker die, the task is rescued when its lease ends."
    if job.state == JobState.SUBMITTING:
        return f"It is being handed to {job.provider}. If the call was cut off, the job is looked for and adopted."
    return f"{job.provider} has it. Its webhook, or the poll within a minute, tells us the end."


def why_held(policy: KindPolicy | None, now: datetime) -> str:
    """Why tasks of this kind do not start at present; "" when they do."""
    if policy is None:
        return ""
    if policy.is_paused:
        return "Its kind is paused: nothing new starts. Resume it in the kind's policy."
    if policy.held_until and policy.held_until > now:
        why = policy.hold_text or policy.hold_reason.replace("_", " ")
        return f"Its kind is held until {policy.held_until:%H:%M:%S} UTC, then goes on by itself: {why}"
    return ""


def percent(batch: Batch) -> int:
    done = sum(batch.counts.get(state, 0) for state in FINAL_STATES)
    return 100 * done // batch.total if batch.total else 0


def counts(batch: Batch) -> list[tuple[str, str, int, str]]:
    """(state, its words, how many, colour) of the states that occur, in the order of a task's life."""
    labels = dict(State.choices)
    return [
        (state, labels[state], batch.counts[state], COLOURS[labels[state]])
        for state in State.values
        if batch.counts.get(state)
    ]
