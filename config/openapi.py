"""What the OpenAPI document has beyond the views: its frame, the events that we send (`webhooks`), its two dialects.

It is written in OpenAPI 3.1, whose schemas are JSON Schema; `in_the_older_dialect` is the same in 3.0 for generators
that know no other. Hooks of drf-spectacular, named in `config.settings`; nothing here is needed at run time otherwise.
"""

from collections.abc import Iterator
from typing import Any

from django.conf import settings

from config.documents.answers import SENT_HEADERS, Answer, by_status
from delivery.policy.catalogue import CATALOGUE, EventType
from kernel.api.openapi import PROBLEM, PROBLEM_TYPE

Json = dict[str, Any]

TAGS = {
    "tasks": "Work at job providers, one by one.",
    "batches": "Work at job providers, thousands at a time.",
    "kinds": "What sorts of work there are, and what each takes.",
    "inbound-events": "Providers' callbacks, as they came.",
    "events": "Facts that are published to subscribers.",
    "endpoints": "Where a subscriber's events go, and how.",
    "deliveries": "What is owed to an endpoint, and what became of it.",
    "dead-letters": "What gave up and waits for a person.",
    "operations": "Verbs on many rows, as tracked things.",
    "alerts": "What an operator must know.",
    "stats": "Where everything is.",
    "live": "The state of a live topic; the websocket sends the same.",
    "live-tokens": "Short-lived tokens for the websocket.",
    "webhooks": "What Roundtrip sends to your endpoints.",
}
REFUSALS = {
    "400": ("The request is wrong; `detail` and `errors` say what and where.", "sends"),
    "401": ("No API key came along, or one that is unknown, revoked or expired.", "always"),
    "403": ("The caller may not do this.", "always"),
    "404": ("There is no such thing, or it is somebody else's.", "names"),
}
CHOICES = {"get", "put", "post", "patch", "delete"}


# --- hooks --------------------------------------------------------------------------------------------------------


def keep_constants(result: Json, **_: Any) -> Json:
    """Before enums get names: one with a single value (the `kind` of a request type) is a constant, and needs none."""
    for schema in _dicts(result["components"]):
        for one in schema.get("properties", {}).values():
            if isinstance(one, dict) and len(one.get("enum", ())) == 1 and "x-spec-enum-id" in one:
                del one["x-spec-enum-id"]
                one["const"] = one.pop("enum")[0]
    return result


def complete(result: Json, **_: Any) -> Json:
    """The last hook: frame, refusals, names of constants, and the webhooks."""
    result["info"]["license"] = {"name": "MIT", "url": "https://opensource.org/license/mit"}
    result["servers"] = [{"url": settings.PUBLIC_BASE_URL or "/", "description": "This installation."}]
    result["tags"] = [{"name": name, "description": words} for name, words in TAGS.items()]
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            if method in CHOICES:
                _say_how_it_refuses(operation, names_a_row="{" in path)
    _name_constants(result["components"]["schemas"])
    _let_anything_be_anything(result["components"]["schemas"])
    if result["openapi"].startswith("3.0"):
        return in_the_older_dialect(result)
    for one in CATALOGUE.values():
        result["components"]["schemas"][schema_name(one)] = one.schema | {"examples": [one.payload]}
    result["webhooks"] = {one.name: {"post": _webhook(one)} for one in CATALOGUE.values()}
    return result


def _say_how_it_refuses(operation: Json, *, names_a_row: bool) -> None:
    asks = {"always"}
    asks |= {"names"} if names_a_row else set()
    asks |= {"sends"} if "requestBody" in operation or operation.get("parameters") else set()
    told = {status: words for status, (words, where) in REFUSALS.items() if where in asks}
    body = {PROBLEM_TYPE: {"schema": {"$ref": PROBLEM}}}
    for status, words in told.items():
        operation["responses"].setdefault(status, {"description": words, "content": body})
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _let_anything_be_anything(schemas: Json) -> None:
    """A JSON field that may be null comes as "one of anything and null", of which null is both, and so is refused."""
    for schema in _dicts(schemas):
        if {} in (schema.get("oneOf") or ()):
            del schema["oneOf"]


def _name_constants(schemas: Json) -> None:
    """Generators that make constants of a whole package (Go's) need names that no other enum has."""
    for name, schema in schemas.items():
        if "enum" in schema:
            schema["x-enum-varnames"] = [f"{_snake(name)}_{_snake(str(value)) or 'EMPTY'}" for value in schema["enum"]]


def _snake(text: str) -> str:
    parts = [
        f"_{letter}" if letter.isupper() and not text[:place].isupper() else letter for place, letter in enumerate(text)
    ]
    return "".join(letter if letter.isalnum() else "_" for letter in "".join(parts)).strip("_").upper()


# --- webhooks -----------------------------------------------------------------------------------------------------


def schema_name(one: EventType) -> str:
    """`task.succeeded` is `TaskSucceededEvent`."""
    return "".join(word.capitalize() for word in one.name.replace(".", "_").split("_")) + "Event"


def _webhook(one: EventType) -> Json:
    return {
        "operationId": f"on_{one.name.replace('.', '_')}",
        "summary": one.meaning.split(". ")[0].rstrip("."),
        "description": f"{one.meaning} {one.sent} {one.receivers}",
        "tags": ["webhooks"],
        "security": [],
        "parameters": [
            {"name": name, "in": "header", "required": True, "description": words, "schema": {"type": "string"}}
            for name, words in SENT_HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema_name(one)}"}}},
        },
        "responses": {answer.key: {"description": answer.meaning} for answer in _answers()},
    }


def _answers() -> list[Answer]:
    return sorted(by_status(), key=lambda answer: answer.key)


# --- OpenAPI 3.0 --------------------------------------------------------------------------------------------------


def in_the_older_dialect(value: Any) -> Any:
    """JSON Schema 2020-12 as OpenAPI 3.0 has it: `nullable` for a list of types, `enum` for `const`."""
    if isinstance(value, list):
        return [in_the_older_dialect(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: in_the_older_dialect(item) for key, item in value.items()}
    if isinstance(made.get("type"), list):
        made["nullable"] = "null" in made["type"]
        made["type"] = next(name for name in made["type"] if name != "null")
    if "const" in made and not isinstance(made["const"], dict):
        made["enum"] = [made.pop("const")]
    if "nullable" in made and isinstance(made["nullable"], bool) and not {"type", "allOf", "oneOf", "$ref"} & set(made):
        del made["nullable"]  # what has no type may be null anyway
    return made


def _dicts(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _dicts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _dicts(item)
