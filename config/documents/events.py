"""docs/events.md: the catalogue of our own event types, from `delivery.policy.catalogue`."""

import json
from typing import Any

from config.documents.markdown import table
from delivery.events import OUR_TYPES
from delivery.policy.catalogue import CATALOGUE, EventType

INTRO = """# Events

Made from the code by `python manage.py document`; tests fail when it is out of date, and when what is really sent has
other fields. Do not edit it by hand.

What Roundtrip itself sends to endpoints. Every payload is `{"type", "timestamp", "data"}`; how it is signed and what an
answer means is told in [receiving.md](receiving.md). The same as JSON Schema: `webhooks` in `/api/v1/schema/`.
"""
OTHERS = """
Fields may be added to `data` in a later release, and types to this list: a receiver leaves alone what it does not
know. A field that is here stays.

Beside these, an endpoint gets whatever callers publish for its subscriber (`POST /api/v1/events/`): types of their own,
never one that begins with {ours}.
"""


def events_page() -> str:
    overview = table(
        ("type", "means", "goes to"),
        ((f"[`{one.name}`](#{_anchor(one.name)})", one.meaning, one.receivers) for one in CATALOGUE.values()),
    )
    ours = ", ".join(f"`{prefix}`" for prefix in OUR_TYPES)
    return INTRO + "\n" + overview + OTHERS.format(ours=ours) + "".join(_section(one) for one in CATALOGUE.values())


def _anchor(name: str) -> str:
    return name.replace(".", "")


def _section(one: EventType) -> str:
    fields = table(
        ("field of `data`", "is", "says"),
        ((f"`{name}`", _sort(schema), schema.get("description", "")) for name, schema in one.fields.items()),
    )
    example = json.dumps(one.payload, indent=2, ensure_ascii=False)
    words = f"{one.meaning}\n\n*When*: {one.sent} *To whom*: {one.receivers}"
    return f"\n## {one.name}\n\n{words}\n\n{fields}\n```json\n{example}\n```\n"


def _sort(schema: Any) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if schema.get("format") == "date-time":
        names = [name.replace("string", "time (ISO 8601)") for name in names]
    if "properties" in schema:
        inside = ", ".join(f"`{name}`" for name in schema["properties"])
        names = [f"object of {inside}" if name == "object" else name for name in names]
    return " or ".join(names)
