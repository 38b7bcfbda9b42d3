"""What a language model is asked for each kind, and how its answer is read. Pure.

The kind's words can be replaced by the option `prompt`, in which `$input` stands for the task's input as JSON. The
input is a stranger's text and may say anything to the model, so what comes back is judged by the kind's rules like any
result.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from tasks.providers import results
from tasks.providers.base import BadAnswer, ProviderDenied, ProviderRejected, Result

OPTION_WORDS = {
    "model": "which model answers; there is no default, since it decides the price",
    "prompt": "instead of the kind's own words; $input stands for the task's input as JSON",
    "max_tokens": "most tokens of an answer",
}
MAX_TOKENS = 2048
_FENCES = ("```json", "```")


@dataclass(frozen=True)
class Prompt:
    """A kind's words, the schema of its answer (all fields required), and which fields must be there."""

    words: str
    schema: Mapping[str, Any]


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


PROMPTS: dict[str, Prompt] = {
    "email_generation": Prompt(
        "Write a first e-mail to the business below, in its tone and language. Leave no placeholder unfilled and "
        "invent no facts. Answer with one JSON object and nothing else: "
        '{"subject": one line, "body": plain text}.\n\n$input',
        _object(subject={"type": "string"}, body={"type": "string"}),
    ),
    "scoring": Prompt(
        "Judge how promising the business below is as a customer, with its e-mail where there is one. Answer with one "
        'JSON object and nothing else: {"score": a number from 0 to 100, "reasons": a list of short texts}.\n\n$input',
        _object(score={"type": "number"}, reasons={"type": "array", "items": {"type": "string"}}),
    ),
}
KINDS = frozenset(PROMPTS)


def model(options: Mapping[str, Any]) -> str:
    """The model's name. Raises ProviderDenied: until somebody chooses one, nothing is started and nothing is lost."""
    name = options.get("model")
    if not isinstance(name, str) or not name.strip():
        raise ProviderDenied("No model is chosen: set the option model of the account, or of the kind's policy.")
    return name.strip()


def max_tokens(options: Mapping[str, Any]) -> int:
    value = options.get("max_tokens")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else MAX_TOKENS


def words(kind: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The whole prompt of one task. Raises ProviderRejected for a kind that nobody has words for."""
    own = options.get("prompt")
    template = own if isinstance(own, str) and own.strip() else prompt_of(kind).words
    if "$input" not in template and "${input}" not in template:
        template = f"{template}\n\n$input"
    return Template(template).safe_substitute(input=json.dumps(given, ensure_ascii=False))


def prompt_of(kind: str) -> Prompt:
    found = PROMPTS.get(kind)
    if found is None:
        raise ProviderRejected(f"This adapter has no prompt for the kind {kind}.")
    return found


def read(kind: str, answer: str, why_cut: str = "") -> Result:
    """The model's answer as the kind's result. Raises BadAnswer with the answer; `why_cut` says why it may be cut."""
    raw = answer.encode("utf-8", "replace")
    try:
        found = results.read(_bare(answer).encode("utf-8", "surrogatepass"))
    except BadAnswer as error:
        raise BadAnswer(why_cut or error.detail, raw=raw) from None
    wanted = PROMPTS[kind].schema["required"] if kind in PROMPTS else []
    missing = [name for name in wanted if not isinstance(found.value, Mapping) or name not in found.value]
    if missing:
        said = f"The model's answer has no {' and no '.join(missing)}."
        raise BadAnswer(why_cut or said, raw=raw)
    return Result(found.value, raw, found.note)


def _bare(answer: str) -> str:
    """Without the fence that models like to put around JSON."""
    text = answer.strip()
    for fence in _FENCES:
        if text.startswith(fence) and text.endswith("```") and len(text) > len(fence) + 3:
            return text[len(fence) : -3]
    return text
