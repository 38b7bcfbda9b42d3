"""Every type of event that Roundtrip itself sends: what it means, when it is sent, the shape of its data, an example.

Pure, and the one place where such a type is spelled: whoever records one takes its name from here. docs/events.md and
the `webhooks` of the OpenAPI document are made from it. The data of what callers publish is theirs, and not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TASK_SUCCEEDED = "task.succeeded"
TASK_DEAD_LETTERED = "task.dead_lettered"
TASK_CANCELLED = "task.cancelled"
BATCH_COMPLETED = "batch.completed"
ALERT_OPENED = "alert.opened"
ENDPOINT_DISABLED = "endpoint.disabled"
ENDPOINT_NEEDS_ATTENTION = "endpoint.needs_attention"
ENDPOINT_TEST = "endpoint.test"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventType:
    """One type. `fields` are JSON Schemas (2020-12) of the data's fields; each of them is in each event."""

    name: str
    meaning: str
    sent: str
    receivers: str
    fields: Mapping[str, Schema]
    example: Mapping[str, Any]

    @property
    def schema(self) -> dict[str, Any]:
        """Of the whole payload, as it lies in the body of the request (Standard Webhooks §Payload)."""
        return _record(
            {
                "type": {"type": "string", "const": self.name},
                "timestamp": {**_MOMENT, "description": "When it happened; the time of sending is a header."},
                "data": _record(self.fields),
            }
        )

    @property
    def payload(self) -> dict[str, Any]:
        """The example, whole."""
        return {"type": self.name, "timestamp": EXAMPLE_TIME, "data": dict(self.example)}


def _record(fields: Mapping[str, Schema]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(fields),
        "properties": {name: dict(schema) for name, schema in fields.items()},
        "additionalProperties": False,
    }


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


EXAMPLE_TIME = "2026-03-14T09:26:53.589793Z"
_FINISHED = "2026-03-14T09:26:53.589793+00:00"
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_ID: Schema = {"type": "string", "pattern": "^[0-9]+$"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_LINK: Schema = {"type": "string", "description": "Where the API shows it, with the reader's rights."}

_OWNERS = "Endpoints of the task's subscriber."
_OPERATORS = "The operators' own endpoints: those without a subscriber."
_ONCE = "Once; once more each time that it ends so again after a redrive."


def _task_fields(state: str) -> dict[str, Schema]:
    return {
        "task_id": _ID,
        "kind": _text("What sort of work it was."),
        "state": {"type": "string", "const": state},
        "reference": _text("What the caller named it; empty where nothing."),
        "batch_id": _or_null({**_ID, "description": "Null for a single task."}),
        "attempt_count": _COUNT,
        "finished_at": _MOMENT,
        "url": _LINK,
    }


_ERROR = _or_null(
    {
        **_record({"code": _text("The reason word."), "detail": _text("The same for a person.")}),
        "description": "Null where there was none.",
    }
)


def _task_example(state: str, **more: Any) -> dict[str, Any]:
    return {
        "task_id": "4711",
        "kind": "map_search",
        "state": state,
        "reference": "row-17",
        "batch_id": "12",
        "attempt_count": 1,
        "finished_at": _FINISHED,
        "url": "https://jobs.example.com/api/v1/tasks/4711/",
        **more,
    }


def _held(description: str) -> dict[str, Schema]:
    return {
        "endpoint": {**_ID, "description": "Its id."},
        "name": _text("Its name; empty where it has none."),
        "host": _text("Host and port; the whole URL is a secret."),
        "reason": _text(description),
        "subscriber": _text("Whose endpoint it is; empty for the operators' own."),
    }


CATALOGUE: dict[str, EventType] = {
    one.name: one
    for one in (
        EventType(
            TASK_SUCCEEDED,
            "A task has its result. The result itself is read from `url`.",
            _ONCE,
            _OWNERS,
            _task_fields("succeeded"),
            _task_example("succeeded"),
        ),
        EventType(
            TASK_DEAD_LETTERED,
            "A task gave up: its attempts are used up, or it failed for good. It waits for a person.",
            _ONCE,
            _OWNERS,
            _task_fields("dead_letter") | {"error": _ERROR},
            _task_example(
                "dead_letter",
                attempt_count=5,
                error={"code": "provider_failed", "detail": "The provider could not do it."},
            ),
        ),
        EventType(
            TASK_CANCELLED,
            "A task was cancelled by its caller or by an operator.",
            _ONCE,
            _OWNERS,
            _task_fields("cancelled") | {"error": _ERROR},
            _task_example("cancelled", error=None),
        ),
        EventType(
            BATCH_COMPLETED,
            "Every task of a batch has ended, in whatever way; `outcome` and `counts` say how.",
            "Once; once more, with the next `revision`, each time that it is complete again after a redrive.",
            "Endpoints of the batch's subscriber.",
            {
                "batch_id": _ID,
                "kind": _text("What sort of work it was."),
                "reference": _text("What the caller named it; empty where nothing."),
                "revision": {"type": "integer", "minimum": 1, "description": "How many times it has been complete."},
                "outcome": {"type": "string", "enum": ["all_succeeded", "partly", "none"]},
                "total": _COUNT,
                "counts": {
                    "type": "object",
                    "additionalProperties": {"type": "integer", "minimum": 1},
                    "description": "Number of tasks in each state that occurs.",
                },
                "completed_at": _MOMENT,
                "url": _LINK,
            },
            {
                "batch_id": "12",
                "kind": "map_search",
                "reference": "march",
                "revision": 1,
                "outcome": "partly",
                "total": 344,
                "counts": {"succeeded": 341, "dead_letter": 3},
                "completed_at": _FINISHED,
                "url": "https://jobs.example.com/api/v1/batches/12/",
            },
        ),
        EventType(
            ALERT_OPENED,
            "Something needs an operator: docs/alerts.md lists the rules.",
            "Once for a rule and its subject, for as long as the finding stays.",
            _OPERATORS,
            {
                "id": _ID,
                "rule": _text("Which rule found it."),
                "subject": _text("What it found it on; empty for the whole house."),
                "title": _text("One line for a pager."),
                "detail": _text("What was found."),
                "advice": _text("What to do."),
                "value": {"type": ["number", "null"], "description": "What was measured, if it is a figure."},
            },
            {
                "id": "7",
                "rule": "dead_letters",
                "subject": "",
                "title": "3 dead letters wait for a person",
                "detail": "3 tasks gave up.",
                "advice": "Open Dead letters: they are grouped by cause.",
                "value": 3.0,
            },
        ),
        EventType(
            ENDPOINT_DISABLED,
            "An endpoint answered 410 and is not sent to any more; what is owed to it is held.",
            "Once, when it is disabled.",
            _OPERATORS,
            _held("Why it was disabled."),
            {
                "endpoint": "9",
                "name": "Shop",
                "host": "hooks.example.com",
                "reason": "It answered 410 Gone.",
                "subscriber": "acme",
            },
        ),
        EventType(
            ENDPOINT_NEEDS_ATTENTION,
            "An endpoint refuses what it is sent; what is owed to it is held until a person resumes it.",
            "Once, when it is held.",
            _OPERATORS,
            _held("What was refused, and what to do."),
            {
                "endpoint": "9",
                "name": "Shop",
                "host": "hooks.example.com",
                "reason": "5 answers in a row were “rejected 401”.",
                "subscriber": "acme",
            },
        ),
        EventType(
            ENDPOINT_TEST,
            "A test that somebody asked for. Answer it as any other, and do nothing else.",
            "When asked for: `POST /api/v1/endpoints/{id}/test/`, or *Send a test* on the endpoint's page.",
            "The one endpoint that is tested, whatever its filter.",
            {"endpoint": {**_ID, "description": "Its id."}, "message": _text("Words for a person.")},
            {"endpoint": "9", "message": "A test from Roundtrip."},
        ),
    )
}
