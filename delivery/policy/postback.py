"""Postbacks: a request rendered from a URL template, as affiliate platforms take them.

`https://partner.example/pb?click={data.click_id}&sum={data.payout}`: fields are dotted paths into the event's
envelope (`type`, `timestamp`, `uid`, `data.…`) and arrive percent-encoded. Pure. A rendered URL is a secret: it may
be sent and shown to those with `view_payload`, and everybody else gets `masked`. Fields never reach scheme or host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from kernel.exact_numbers import Number
from kernel.network.addresses import AddressRefused, split_url

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)\}")
_ROOTS = frozenset({"data", "type", "timestamp", "uid"})
_HOST_PART = re.compile(r"[^/?#]*//[^/?#]*")
MASK = "•••"


class TemplateInvalid(ValueError):
    """A template that can never be sent; `code` is the reason word."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


NOT_PLAIN = "a postback's field must be a plain value."
MISSING = "which the postback needs."


class FieldRefused(ValueError):
    """This event lacks a field of the template (policy `refuse`), or the field is not a plain value."""

    def __init__(self, code: str, field_name: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.field = field_name
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Template:
    """A postback's request. `missing` is `refuse`, `empty` or `default`."""

    url: str = field(repr=False)
    body: str = field(default="", repr=False)
    content_type: str = ""
    missing: str = "refuse"
    default: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Ready to be sent. `missing_fields` were filled by the policy."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    missing_fields: tuple[str, ...] = ()


def check_template(template: Template) -> tuple[str, ...]:
    """The template's fields, in order. Raises TemplateInvalid in words for the form, AddressRefused for its URL."""
    if "{" in "".join(_HOST_PART.findall(template.url)[:1]):
        raise TemplateInvalid("field_in_host", "A field may stand in the path or query, not in the host.")
    fields = tuple(dict.fromkeys(_FIELD.findall(template.url) + _FIELD.findall(template.body)))
    for name in fields:
        root, _, rest = name.partition(".")
        if root not in _ROOTS or (root == "data") != bool(rest):
            raise TemplateInvalid("unknown_field", f"{{{name}}} is unknown: use data.…, type, timestamp or uid.")
    rest = _FIELD.sub("", template.url)
    if "{" in rest or "}" in rest:
        raise TemplateInvalid("brace", "The URL holds a brace that is no field. Write fields as {data.click_id}.")
    split_url(_FIELD.sub("x", template.url))
    return fields


def render(template: Template, envelope: Mapping[str, Any]) -> Rendered:
    """Fill the template from an event's `{"type", "timestamp", "uid", "data"}`. Raises FieldRefused."""
    missing: list[str] = []

    def lookup(name: str) -> str:
        value = _plain(name, envelope)
        if value is None:
            missing.append(name)
            return _instead(name, template)
        return value

    url = _filled(template.url, lookup, _for_url)
    try:
        url = split_url(url).url
    except AddressRefused as error:
        raise FieldRefused(error.code, "url", error.detail) from error
    body = _filled(template.body, lookup, _encoder_for(template.content_type)) if template.body else ""
    return Rendered(url, body.encode("utf-8", "replace"), tuple(dict.fromkeys(missing)))


def masked(url: str) -> str:
    """A URL or template for eyes without `view_payload`: scheme and host, nothing else."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#@]*@)?([^/?#@\\\s]*)", url)
    return f"{match[1]}{match[2]}/{MASK}" if match else MASK


@lru_cache(maxsize=2048)
def _parts(text: str) -> tuple[str, ...]:
    """Literal, field, literal, field, …, literal."""
    return tuple(_FIELD.split(text))


def _filled(text: str, lookup: Callable[[str], str], encode: Callable[[str], str]) -> str:
    return "".join(encode(lookup(part)) if index % 2 else part for index, part in enumerate(_parts(text)))


def _plain(name: str, envelope: Mapping[str, Any]) -> str | None:
    value: Any = envelope
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, Number):
        return value.text
    raise FieldRefused("not_plain", name, f"{name} is a list or object; {NOT_PLAIN}")


def is_refusal_of_ours(error: str) -> bool:
    """Whether an attempt's error says that its event does not fit the template, and nothing of an address."""
    return error.endswith((NOT_PLAIN, MISSING))


def _instead(name: str, template: Template) -> str:
    if template.missing == "refuse":
        raise FieldRefused("missing_field", name, f"The event has no {name}, {MISSING}")
    return template.default if template.missing == "default" else ""


def _for_url(value: str) -> str:
    if value in (".", ".."):  # a whole path segment of dots would climb
        return value.replace(".", "%2E")
    return quote(value, safe="", errors="replace")


def _encoder_for(content_type: str) -> Callable[[str], str]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith("json"):
        return lambda value: json.dumps(value, ensure_ascii=False)[1:-1]
    if kind in ("", "application/x-www-form-urlencoded"):
        return lambda value: quote_plus(value, errors="replace")
    if kind.endswith("xml"):
        return lambda value: (
            value.replace("&", "&amp;")
            .replace("<", "&lt;")
            .replace(">", "&gt;")
            .replace('"', "&quot;")
            .replace("'", "&#39;")
        )
    return str
