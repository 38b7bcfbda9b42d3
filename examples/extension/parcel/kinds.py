"""Two kinds of work: a quote, which a provider is asked for, and the label from it, which our own worker writes.

Roundtrip finds this file by its name in every app of ROUNDTRIP_APPS. API, OpenAPI, console, CSV files and documents
take the kinds up by themselves.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.errors import RunFailed
from tasks.kinds import Kind, ResultRule, link, register
from tasks.models import Task

# What goes in: a JSON Schema of an object. Its fields are the columns of a CSV file too: `to.zip` goes inside of `to`.
QUOTE_INPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["grams", "to"],
    "properties": {
        "grams": {"type": "integer", "title": "Weight in grams", "minimum": 1, "maximum": 30_000},
        "to": {
            "type": "object",
            "title": "Where it goes",
            "additionalProperties": False,
            "required": ["country", "zip"],
            "properties": {
                "country": {"type": "string", "title": "Country (two letters)", "pattern": "^[A-Z]{2}$"},
                "zip": {"type": "string", "title": "Postal code", "minLength": 1, "maxLength": 12},
            },
        },
        "express": {"type": "boolean", "title": "Next day", "default": False},
    },
}
LABEL_INPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["zip", "cents"],
    "properties": {
        "zip": {"type": "string", "title": "Postal code", "minLength": 1, "maxLength": 12},
        "cents": {"type": "integer", "title": "Price in cents", "minimum": 1},
    },
}


def price_is_there(given: Mapping[str, Any], result: Any) -> str:
    """When a result is good: "" or, in words, what is wrong. A provider's answer is judged and never trusted."""
    cents = result.get("cents") if isinstance(result, Mapping) else None
    if not isinstance(cents, int) or isinstance(cents, bool) or cents < 1:
        return "The quote has no price in whole cents."
    return ""


def label_is_whole(given: Mapping[str, Any], result: Any) -> str:
    return "" if isinstance(result, Mapping) and result.get("text") else "The label is empty."


def write_label(task: Task) -> dict[str, Any]:
    """Runs in our own worker, and may run twice: it writes nothing of its own, so the second time is like the first."""
    if task.input["zip"].startswith("0000"):
        raise RunFailed("no_such_place", "Nobody lives at this postal code.", permanent=True)
    return {"text": f"{task.input['zip']} · {task.input['cents'] / 100:.2f}"}


register(Kind("parcel", "Parcel quote", QUOTE_INPUT, (ResultRule("has_a_price", price_is_there),)))
register(
    Kind("parcel_label", "Parcel label", LABEL_INPUT, (ResultRule("is_a_label", label_is_whole),), run=write_label)
)


@link("parcel", "parcel_label")
def quotes_to_labels(task: Task) -> Iterator[dict[str, Any]]:
    """What follows: a label for every quote, by `manage.py submit --from-batch ID --kind parcel_label`."""
    yield {"input": {"zip": task.input["to"]["zip"], "cents": task.result["cents"]}}
