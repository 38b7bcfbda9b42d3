"""Postbacks: a request rendered from a URL template, as affiliate platforms take them.

`https://partner.example/pb?click={data.click_id}&sum={data.payout}`: fields are dotted paths into the event's
envelope (`type`, `timestamp`, `uid`, `data.…`) and arrive percent-encoded. Pure. A rendered URL is a secret: it may
be sent and shown to those with `view_payload`, and everybody else gets `masked`. Fields never reach scheme or host.
A small template can ask for a large field thousands of times, so the size is reckoned before anything is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from kernel import exact_numbers
from kernel.exact_numbers import Number
from kernel.network.addresses import MAX_URL, AddressRefused, split_url

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)\}")
_ROOTS = frozenset({"data", "type", "timestamp", "uid"})
_HOST_PART = re.compile(r"[^/?#]*//[^/?#]*")
MASK = "•••"
MAX_BODY_BYTES = 64 * 1024  # of a rendered body: so many that the number of transfers alone bounds the memory
NAME_SHOWN = 60  # of a field's name, in what is stored and shown


class TemplateInvalid(ValueError):
    """A template that can never be sent; `code` is the reason word."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


NOT_PLAIN = "a postback's field must be a plain value."
MISSING = "which the postback needs."
TOO_LARGE = "Shorten its template, or what the event carries."
UNREADABLE = "no postback can be rendered from it."
_AS_EVER = frozenset({"missing_field", "not_plain"})  # stored without their word: dead letters are grouped by the text


class FieldRefused(ValueError):
    """This event lacks a field of the template (policy `refuse`), or the field is not a plain value."""

    def __init__(self, code: str, field_name: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.field = field_name
        self.detail = detail

    @property
    def stored(self) -> str:
        """What stands on the attempt and the delivery: the reason word, and what to do."""
        return self.detail if self.code in _AS_EVER else f"{self.code}: {self.detail}"


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
    host_part = _HOST_PART.match(template.url)
    if host_part and "{" in host_part[0]:
        raise TemplateInvalid("field_in_host", "A field may stand in the path or query, not in the host.")
    fields = tuple(dict.fromkeys(_FIELD.findall(template.url) + _FIELD.findall(template.body)))
    for name in fields:
        root, _, rest = name.partition(".")
        if root not in _ROOTS or (root == "data") != bool(rest):
            shown = name[:NAME_SHOWN]
            raise TemplateInvalid("unknown_field", f"{{{shown}}} is unknown: use data.…, type, timestamp or uid.")
    rest = _FIELD.sub("", template.url)
    if "{" in rest or "}" in rest:
        raise TemplateInvalid("brace", "The URL holds a brace that is no field. Write fields as {data.click_id}.")
    split_url(_FIELD.sub("x", template.url))
    return fields


def origin_of(url: str) -> str:
    """Scheme, host and port that a URL or template is sent to. Raises AddressRefused."""
    return split_url(_FIELD.sub("x", url)).origin


def envelope_of(payload: bytes, uid: str) -> dict[str, Any]:
    """What the fields are looked up in. Raises FieldRefused for a payload from before there were limits."""
    try:
        return {**exact_numbers.loads(payload), "uid": uid}
    except RecursionError:
        raise FieldRefused("too_deep", "data", f"The event is nested too deeply: {UNREADABLE}") from None
    except (ValueError, TypeError):
        raise FieldRefused(
            "unreadable", "data", f"The event is no JSON object that we can read: {UNREADABLE}"
        ) from None


def render(template: Template, envelope: Mapping[str, Any]) -> Rendered:
    """Fill the template from an event's `{"type", "timestamp", "uid", "data"}`. Raises FieldRefused."""
    missing: list[str] = []

    def lookup(name: str) -> str:
        value = _plain(name, envelope)
        if value is None:
            missing.append(name)
            return _instead(name, template)
        return value

    url = _filled(template.url, lookup, _for_url, _URL).decode()
    try:
        url = split_url(url).url
    except AddressRefused as error:
        raise FieldRefused(error.code, "url", error.detail) from error
    body = _filled(template.body, lookup, _encoder_for(template.content_type), _BODY) if template.body else b""
    return Rendered(url, body, tuple(dict.fromkeys(missing)))


def masked(url: str) -> str:
    """A URL or template for eyes without `view_payload`: scheme and host, nothing else."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#@]*@)?([^/?#@\\\s]*)", url)
    return f"{match[1]}{match[2]}/{MASK}" if match else MASK


@dataclass(frozen=True, slots=True)
class _Limit:
    """What one part of a request may hold, in bytes, and what is said beyond it."""

    part: str
    most: int
    code: str

    def refusal(self) -> FieldRefused:
        return FieldRefused(
            self.code, self.part, f"The rendered {self.part} would be larger than {self.most:,} bytes. {TOO_LARGE}"
        )


_URL = _Limit("url", MAX_URL, "too_long")
_BODY = _Limit("body", MAX_BODY_BYTES, "too_large")


@lru_cache(maxsize=2048)
def _parts(text: str) -> tuple[int, tuple[bytes, ...], tuple[str, ...]]:
    """What stands between the fields (its bytes in all, and the pieces), and the fields: one fewer than pieces."""
    parts = _FIELD.split(text)
    literals = tuple(part.encode("utf-8", "replace") for part in parts[::2])
    return sum(map(len, literals)), literals, tuple(parts[1::2])


def _filled(text: str, lookup: Callable[[str], str], encode: Callable[[str], str], limit: _Limit) -> bytes:
    """The text with its fields. Each is looked up and encoded once; the whole is built only if it may be as large."""
    size, literals, names = _parts(text)
    values: dict[str, bytes] = {}
    for name in names:
        if name not in values:
            values[name] = _encoded(lookup(name), encode, limit)
        size += len(values[name])
        if size > limit.most:
            raise limit.refusal()
    pieces = [literals[0]]
    for name, literal in zip(names, literals[1:], strict=True):
        pieces += (values[name], literal)
    return b"".join(pieces)


def _encoded(value: str, encode: Callable[[str], str], limit: _Limit) -> bytes:
    if len(value) > limit.most:  # no encoding makes it shorter
        raise limit.refusal()
    return encode(value).encode("utf-8", "replace")


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
    raise FieldRefused("not_plain", name[:NAME_SHOWN], f"{name[:NAME_SHOWN]} is a list or object; {NOT_PLAIN}")


def is_refusal_of_ours(error: str) -> bool:
    """Whether an attempt's error says that its event does not fit the template, and nothing of an address."""
    return error.endswith((NOT_PLAIN, MISSING, TOO_LARGE, UNREADABLE))


def is_refusal_of_the_event(error: str) -> bool:
    """Whether it is the event's or the rendered request's size or depth, and no field is missing."""
    return error.endswith((TOO_LARGE, UNREADABLE))


def _instead(name: str, template: Template) -> str:
    if template.missing == "refuse":
        raise FieldRefused("missing_field", name[:NAME_SHOWN], f"The event has no {name[:NAME_SHOWN]}, {MISSING}")
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
