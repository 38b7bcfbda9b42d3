"""A model that needs no weights: it finds the JSON in its question and answers as the sandbox's own kinds would."""

from __future__ import annotations

import json
from typing import Any

from sandbox.provider import kinds


async def answer_to(prompt: str, wanted: str = "") -> str:
    """`wanted`: the name of the answer's schema, where the caller gave one. The same question, the same answer."""
    given = _last_object(prompt)
    kind = kinds.kind_named(wanted) or ("scoring" if '"score"' in prompt else "email_generation")
    if given is None or "business" not in given:
        return json.dumps({"answer": prompt[-200:]})
    try:
        return json.dumps(_plain(kind, await kinds.result_of(kind, kinds.checked(kind, given))), ensure_ascii=False)
    except kinds.BadInput as error:
        return f"I cannot do that: {error}"


def _plain(kind: str, result: dict[str, Any]) -> dict[str, Any]:
    if kind == "scoring":
        return {"score": result["score"], "reasons": [reason["text"] for reason in result["reasons"]]}
    return {name: result[name] for name in ("subject", "body")}


def _last_object(prompt: str) -> dict[str, Any] | None:
    """The JSON object that the question ends with."""
    at = prompt.find('{"business"')
    while at >= 0:
        try:
            found = json.loads(prompt[at:])
        except ValueError:
            at = prompt.find('{"business"', at + 1)
            continue
        return found if isinstance(found, dict) else None
    return None
