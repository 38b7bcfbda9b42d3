"""Which extra headers an endpoint may have, and how a header becomes a line that cannot carry a second one.

Pure. Custom headers never override ours, the host, the framing or the content's description.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_HEADERS = 20
MAX_BYTES = 4096
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED = frozenset(
    {"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "date"}
    | {"accept-encoding", "user-agent", "traceparent", "tracestate", "x-correlation-id", "http2-settings"}
)
_RESERVED_PREFIXES = ("webhook-", "content-", "proxy-", "sec-", "x-forwarded-", ":")


class HeaderRefused(ValueError):
    """A header that we do not send; `code` is the reason word, `field` the header's name."""

    def __init__(self, code: str, detail: str, field: str = "") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.field = field


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """An endpoint's own headers, trimmed. Raises HeaderRefused: `too_many`, `name`, `reserved`, `value`, `too_long`."""
    if len(headers) > MAX_HEADERS:
        raise HeaderRefused("too_many", f"An endpoint may have {MAX_HEADERS} headers of its own.")
    kept: dict[str, str] = {}
    for name, value in headers.items():
        kept[_name(name)] = _value(name, value)
    if len({name.lower() for name in kept}) != len(kept):
        raise HeaderRefused("name", "A header may be given once.")
    if sum(len(name) + len(value) for name, value in kept.items()) > MAX_BYTES:
        raise HeaderRefused("too_long", f"All headers together may have {MAX_BYTES} bytes.")
    return kept


def _name(name: str) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise HeaderRefused("name", "A header's name has letters, digits and hyphens only.", str(name)[:100])
    lower = name.lower().replace("_", "-")  # CGI and WSGI receivers read both as one
    if lower in _RESERVED or lower.startswith(_RESERVED_PREFIXES):
        raise HeaderRefused("reserved", f"{name} is set by us and cannot be overridden.", name)
    return name


def _value(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise HeaderRefused("value", f"The value of {name} must be a text.", name)
    value = value.strip(" \t")
    if not (value.isascii() and value.isprintable()):
        raise HeaderRefused("value", f"The value of {name} may hold printable ASCII only, in one line.", name)
    return value


def header_lines(headers: Mapping[str, str]) -> list[str]:
    """Lines for the transfer. libcurl drops a header that ends in its colon; a semicolon sends it empty."""
    return [f"{name}: {value}" if value else f"{name};" for name, value in headers.items()]
