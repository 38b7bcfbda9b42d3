"""Dead letters of tasks, as rows and as groups of one cause: kind and error code, written `kind/code`.

Reads only; redrive and discard are verbs of `tasks.engine.lifecycle`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, QuerySet

from tasks.models import Task
from tasks.states import State

GROUPS_SHOWN = 100
TEXT_SHOWN = 200


@dataclass(frozen=True)
class TaskGroup:
    """Dead tasks of one kind with one error code."""

    fingerprint: str
    kind: str
    error_code: str
    error: str
    count: int
    first_at: datetime | None
    last_at: datetime | None
    sample: int
    what_to_do: str


def dead_letters(
    subscriber: str | None = None,
    kind: str | None = None,
    error_code: str | None = None,
    batch: int | None = None,
    fingerprint: str | None = None,
) -> QuerySet[Task]:
    """The dead letters a filter names, without inputs and results. None narrows nothing; an empty text means itself.

    All of it must hold, a fingerprint too, which is `kind/code`; what is written otherwise is no task's.
    """
    conditions: dict[str, Any] = {"subscriber": subscriber, "kind": kind, "error_code": error_code, "batch_id": batch}
    given = {name: value for name, value in conditions.items() if value is not None}
    rows = Task.objects.filter(state=State.DEAD_LETTER, **given).defer("input", "result")
    if fingerprint is None:
        return rows
    of_kind, slash, code = fingerprint.partition("/")
    return rows.filter(kind=of_kind, error_code=code) if slash else rows.none()


def groups(rows: QuerySet[Task], limit: int = GROUPS_SHOWN) -> list[TaskGroup]:
    """Biggest first."""
    found = list(
        rows.order_by()
        .values("kind", "error_code")
        .annotate(count=Count("pk"), first=Min("finished_at"), last=Max("finished_at"), sample=Max("pk"))
        .order_by("-count", "kind")[:limit]
    )
    texts = dict(Task.objects.filter(pk__in=[row["sample"] for row in found]).values_list("pk", "error_text"))
    return [
        TaskGroup(
            fingerprint=f"{row['kind']}/{row['error_code']}",
            kind=row["kind"],
            error_code=row["error_code"],
            error=texts.get(row["sample"], "")[:TEXT_SHOWN],
            count=row["count"],
            first_at=row["first"],
            last_at=row["last"],
            sample=row["sample"],
            what_to_do=what_to_do(row["error_code"]),
        )
        for row in found
    ]


_LATE = "The provider did not finish in time. See whether it is up, or raise the kind's timeout; then redrive."
_AGAIN = "the result is fetched again, and nothing is paid for twice."


def what_to_do(error_code: str) -> str:
    """What to do about a task's error, by its code's words."""
    words = error_code.lower()
    for mark, text in (
        ("timeout", _LATE),
        ("timed_out", _LATE),
        (
            "result_unreadable",
            "Look at what came, on the task's page. Once the provider has mended it, redrive: " + _AGAIN,
        ),
        ("result_too_large", "Ask for less in one task, and submit it anew. Redrive: " + _AGAIN),
        ("result_refused", "The provider does not hand the result out; see the error. Redrive: " + _AGAIN),
        ("fetch_failed", "See whether the provider is up and takes our key; then redrive: " + _AGAIN),
        ("start_unanswered", "Something between us and the provider answers for it, or it is down; then redrive."),
        ("lost", "The provider knows nothing of the job any more. Redrive: it starts a new one."),
        ("rate", "The provider's rate limit was hit. Lower the kind's rate under Kind policies; then redrive."),
        ("auth", "The provider refused our key. Set a valid one in the environment; then redrive."),
        ("result", "The result was refused by the kind's own rules. Look at a sample; redrive, or discard."),
        ("input", "The provider refuses this input. Correct it where it comes from; a redrive alone will not help."),
    ):
        if mark in words:
            return text
    return "Read the error of a sample, correct the cause; then redrive."
