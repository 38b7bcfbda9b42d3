"""What a language model is asked for our kinds, and how its text is read as their result. Pure.

Whoever wants other words gives a template (`input` of the options); what comes back is judged by the kind's rules
either way, and never trusted.
"""

import json
from collections.abc import Mapping
from typing import Any

from kernel.parsing import HostileJSON, strict_loads

_ASKED = {
    "email_generation": "Write an e-mail that offers our services to the business below, in its language and in the "
    'wanted tone. Answer with nothing but a JSON object: {"subject": one line, "body": text}. Leave no placeholder.',
    "scoring": "Judge how promising the business below is as a customer, together with the e-mail to it where there is "
    'one. Answer with nothing but a JSON object: {"score": 0 to 100, "reasons": [{"text": one sentence}]}.',
}
_FENCE = "```"


def prompt(kind: str, given: Mapping[str, Any]) -> str:
    """What is asked for a kind of ours; "" for other kinds, whose input is the model's own."""
    asked = _ASKED.get(kind)
    return f"{asked}\n\nINPUT:\n{json.dumps(given, ensure_ascii=False)}" if asked else ""


def read_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a model's text is, with or without a fence around it; None for any other text."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        text = text[text.index("\n") : -len(_FENCE)]
    try:
        value = strict_loads(text.encode("utf-8", "surrogatepass"))
    except HostileJSON:
        return None
    return value if isinstance(value, dict) else None
