"""What an operator reads of tasks: colours of states, and what happens next or what to do. Used by pages only."""

import json
from datetime import datetime
from typing import Any

from tasks import accounts, kinds
from tasks.models import Batch, ExternalJob, KindPolicy, ProviderAccount, Schedule, Task
from tasks.reading import account_words
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
FOLLOW_UP_COLOURS = {
    "about to be made": "info",
    "made": "success",
    "nothing to make": "default",
    "not everything succeeded": "warning",
    "could not be made": "danger",
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
FOLLOW_UPS_SHOWN = 20
PAYLOAD_SHOWN = 64 * 1024
NO_PAYLOAD = "Hidden. You need the permission “Can see inputs and results”; ask an administrator."


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else ""


KIND_GONE = "The app that brought its kind is gone: it waits until the app is installed again. You can cancel it."


def kind_title(name: str) -> str:
    kind = kinds.find(name)
    return kind.title if kind else f"{name} (its app is gone)"


def payload(value: Any) -> str:
    """JSON for people: indented, every script readable, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if len(text) <= PAYLOAD_SHOWN else f"{text[:PAYLOAD_SHOWN]}\n… cut here; the API gives the whole."


def next_step(task: Task, job: ExternalJob | None, policy: KindPolicy | None, now: datetime) -> str:
    """One or two sentences: what happens by itself, or what a person has to do."""
    if words := _held_up(task, policy, now):
        return words
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


def _asked_to_stop(task: Task) -> str:
    kind = kinds.find(task.kind)
    if kind is None or kind.is_external:
        return "Somebody asked to cancel it. The provider is asked, and its answer decides whether it still finishes."
    at = moment(task.cancel_requested_at)
    return f"Somebody asked to cancel it at {at}. The run is told; if it does not stop, it is ended within a minute."


def _held_up(task: Task, policy: KindPolicy | None, now: datetime) -> str:
    """What keeps a task that is not finished from going its usual way."""
    if task.state in FINAL_STATES:
        return ""
    if not kinds.exists(task.kind):
        return KIND_GONE
    if task.state in (State.QUEUED, State.RETRYING) and (held := why_held(policy, now)):
        return held
    if task.cancel_requested_at:
        return _asked_to_stop(task)
    return ""


def _running(job: ExternalJob | None) -> str:
    if job is None:
        return "One of our workers is at it. Should the worker die, the task is rescued when its lease ends."
    if job.unanswered_at is not None and job.state == JobState.SUBMITTING:
        return _unanswered(job)
    if words := account_words.of_job(job.provider):
        return words
    if job.state == JobState.SUBMITTING:
        return f"It is being handed to {job.provider}. If the call was cut off, the job is looked for and adopted."
    return f"{job.provider} has it. Its webhook, or the poll within a minute, tells us the end."


def _unanswered(job: ExternalJob) -> str:
    return (
        f"Nobody knows whether {job.provider} took its start of {moment(job.created_at)} (token {job.start_token}). "
        "Look there: if the job is there, press “It is this job” and give its id; if it is not, press “Start again”. "
        "A callback that names the token takes it on by itself."
    )


def why_held(policy: KindPolicy | None, now: datetime) -> str:
    """Why tasks of this kind do not start at present; "" when they do."""
    if policy is None:
        return ""
    if policy.is_paused:
        return "Its kind is paused: nothing new starts. Resume it in the kind's policy."
    kind = kinds.find(policy.kind)
    if kind is None:
        return "The app that brought this kind is gone: its tasks wait until the app is installed again."
    if not kind.is_external:
        return ""
    account = ProviderAccount.objects.filter(name=accounts.name_for(policy)).first()
    if account is not None:
        provider = accounts.provider_of(account)
        if provider is not None and not provider.does(kind.name):
            return f"The account {account.name} does no such work. Choose another in the kind's policy."
        return account_words.why_held(account, now)
    if policy.provider:
        return f"It is set to the account {policy.provider}, which there is not. Choose another in the kind's policy."
    return "No account does such work. Make one, or name one in the kind's policy."


def rhythm(schedule: Schedule) -> str:
    """How often it is due, in words."""
    if schedule.crontab:
        return f"{schedule.crontab} ({schedule.time_zone})"
    seconds = schedule.every_seconds or 0
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds and seconds % length == 0:
            number = seconds // length
            return f"every {unit}" if number == 1 else f"every {number} {unit}s"
    return f"every {seconds} s"


def follow_ups(parent: Batch | Task) -> list[dict[str, Any]]:
    """What was, or is to be, made from it: in words, for its page."""
    rows = parent.follow_ups.order_by("pk").defer("left_out", "remaining")[:FOLLOW_UPS_SHOWN]
    return [
        {
            "row": row,
            "title": kind_title(row.kind),
            "state": row.get_state_display(),
            "colour": FOLLOW_UP_COLOURS[row.get_state_display()],
            "batches": list(row.batches.order_by("pk").values_list("pk", flat=True)[:FOLLOW_UPS_SHOWN]),
        }
        for row in rows
    ]


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
