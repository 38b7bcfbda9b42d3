"""Deterministic rules that a result must pass before a task may succeed. Pure.

Work that a language model or a far-away actor did is checked here and nowhere else. A rule answers what is wrong, in
words, or an empty string.
"""

import re
from collections.abc import Mapping
from typing import Any

# Left-over template fields: {{name}}, ${name}, <% name %>; and {name}, $name, %name%, [Name] of the usual words. The
# text is a stranger's: no pattern may look at a character again and again, so pairs are looked for and not matched.
_PAIRS = (("{{", "}}"), ("${", "}"), ("<%", "%>"))
_PLACEHOLDER = re.compile(
    r"\{[A-Za-z_][\w. ]*\}|\$[A-Za-z_]\w*|%[A-Za-z_]\w*%"
    r"|\[(?:your|my|first|last|company|business|customer|recipient|sender)?[ _]?(?:name|company|title|business)\]",
    re.IGNORECASE,
)
MAX_BODY = 100_000
MAX_SUBJECT = 300


def _number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def map_search(given: Mapping[str, Any], result: Any) -> str:
    places = result.get("places") if isinstance(result, Mapping) else None
    if not isinstance(places, list):
        return "The result has no list of places."
    if len(places) > given.get("limit", 10):
        return f"The result has {len(places)} places, more than the {given.get('limit', 10)} that were asked for."
    for index, place in enumerate(places):
        if not isinstance(place, Mapping) or not isinstance(place.get("name"), str) or not place["name"].strip():
            return f"Place {index} has no name."
        if not _number(place.get("lat"), -90, 90) or not _number(place.get("lon"), -180, 180):
            return f"Place {index} has no position on Earth."
    return ""


def email_generation(given: Mapping[str, Any], result: Any) -> str:
    if not isinstance(result, Mapping):
        return "The result is not an e-mail."
    for field in ("subject", "body"):
        value = result.get(field)
        if not isinstance(value, str) or not value.strip():
            return f"The e-mail has no {field}."
    if "\n" in result["subject"] or len(result["subject"]) > MAX_SUBJECT:
        return f"The subject is not one line of at most {MAX_SUBJECT} characters."
    if len(result["body"]) > MAX_BODY:
        return f"The body has {len(result['body'])} characters, more than {MAX_BODY}."
    left_over = _placeholder(_without_own_words(result["subject"] + "\n" + result["body"], given))
    return f"The e-mail holds an unfilled placeholder: {left_over[:40]}" if left_over else ""


def _placeholder(text: str) -> str:
    """The first left-over field of one form, or ""."""
    for opening, closing in _PAIRS:
        at = text.find(opening)
        end = text.find(closing, at + len(opening)) if at >= 0 else -1
        if end >= 0:
            return text[at : end + len(closing)]
    found = _PLACEHOLDER.search(text)
    return found.group() if found else ""


def _without_own_words(text: str, given: Mapping[str, Any]) -> str:
    """A business may well be called "Bar {Null}" or "$avvy"; its own words are no placeholders."""
    for value in given.get("business", {}).values():
        if isinstance(value, str) and value:
            text = text.replace(value, " ")
    return text


def scoring(given: Mapping[str, Any], result: Any) -> str:
    if not isinstance(result, Mapping) or not _number(result.get("score"), 0, 100):
        return "The result has no score from 0 to 100."
    return ""


def report(given: Mapping[str, Any], result: Any) -> str:
    return "" if isinstance(result, Mapping) and "counts" in result else "The report has no counts."
