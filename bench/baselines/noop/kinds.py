"""The kind of ours that does nothing."""

from __future__ import annotations

from typing import Any

from tasks.kinds.registry import Kind, register

SCHEMA = {"type": "object", "additionalProperties": False, "properties": {"n": {"type": "integer"}}}


def noop(_task: Any) -> dict[str, bool]:
    return {"done": True}


register(Kind("noop", "Nothing", SCHEMA, (), run=noop, processes=1))
