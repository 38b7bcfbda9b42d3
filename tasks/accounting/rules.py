"""What an account may be told: judged field by field, by its adapter. Pure, but for the list of kinds and adapters.

No message repeats a key, a secret or an address.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kernel.network.addresses import AddressRefused, split_url
from tasks import kinds, providers
from tasks.errors import InvalidSetting
from tasks.models import MAX_CONCURRENCY, MAX_RATE_PER_MINUTE
from tasks.models.accounts import NAME
from tasks.providers.base import Provider

LIMITS = {
    "concurrency": MAX_CONCURRENCY,
    "starts_per_minute": MAX_RATE_PER_MINUTE,
    "calls_per_minute": MAX_RATE_PER_MINUTE,
}
SECRETS = ("api_key", "webhook_secret")
KEY_AGAIN = "The stored key was given for the old address. Give it again, so that nobody can send it elsewhere."
LONGEST_SECRET = 2_000
LONGEST_OPTIONS = 16_000  # as JSON

Row = dict[str, str]


def clean(adapter: type[Provider], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored. Raises InvalidSetting with a row for each wrong field."""
    wrong: list[Row] = []
    cleaned = {}
    for name, value in values.items():
        try:
            cleaned[name] = _JUDGES[name](adapter, name, value)
        except ValueError as error:
            wrong.append(_row(name, *error.args))
    if wrong:
        raise InvalidSetting(wrong)
    return cleaned


def clean_name(name: str) -> str:
    """A new account's name. Raises InvalidSetting."""
    if not re.fullmatch(NAME.regex, name):
        raise InvalidSetting([_row("name", "bad_name", str(NAME.message))])
    if kinds.exists(name):
        words = "A kind of task is called so, and both are parts of URLs. Choose another name."
        raise InvalidSetting([_row("name", "name_of_a_kind", words)])
    return name


def known_adapter(name: str) -> type[Provider]:
    """Raises InvalidSetting, with the adapters that there are."""
    adapter = providers.adapter(name)
    if adapter is None:
        words = f"No installed app brings an adapter called {name[:60]!r}; there are {', '.join(providers.adapters())}."
        raise InvalidSetting([_row("adapter", "unknown_adapter", words)])
    return adapter


def options(adapter: type[Provider], name: str, value: Any) -> dict[str, Any]:
    """Only what the adapter knows; empty ones are left out. Raises ValueError(code, words)."""
    if not isinstance(value, Mapping):
        raise ValueError("wrong_type", "This must be an object.")
    known = adapter.option_words
    if unknown := [str(key)[:60] for key in value if key not in known]:
        there = f"there are {', '.join(known)}" if known else "it takes none"
        raise ValueError("unknown_option", f"{title(adapter)} has no option {', '.join(unknown)}; {there}.")
    kept = {key: one.strip() if isinstance(one, str) else one for key, one in value.items()}
    kept = {key: one for key, one in kept.items() if one not in (None, "")}
    written = json.dumps(kept)
    if len(written) > LONGEST_OPTIONS or "\\u0000" in written:
        raise ValueError("too_long", f"Options have at most {LONGEST_OPTIONS:,} characters, and no NUL among them.")
    return kept


def title(adapter: type[Provider]) -> str:
    return adapter.title or adapter.adapter


def _base_url(adapter: type[Provider], _name: str, value: Any) -> str:
    text = str(value or "").strip().rstrip("/")
    if not text:
        if adapter.takes_base_url and not adapter.default_base_url:
            raise ValueError("required", f"{title(adapter)} has no address of its own: say where it is, https://…")
        return ""
    if not adapter.takes_base_url:
        raise ValueError("not_taken", f"{title(adapter)} is always at its own address; leave this out.")
    if len(text) > 500 or "?" in text or "#" in text:
        raise ValueError("bad_url", "This must be an address without ? and #, of at most 500 characters.")
    try:
        split_url(text)
    except AddressRefused as refusal:
        raise ValueError(refusal.code, refusal.detail) from None
    return text


def _secret(adapter: type[Provider], name: str, value: Any) -> str:
    text = str(value or "").strip()
    if len(text) > LONGEST_SECRET:
        raise ValueError("too_long", f"This has more than {LONGEST_SECRET:,} characters: is it the right one?")
    if not text.isprintable() or (name == "api_key" and not text.isascii()):
        raise ValueError("bad_character", "This holds a character that no key has. Copy it again, in one line.")
    return text


def _limit(_adapter: type[Provider], name: str, value: Any) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LIMITS[name]:
        raise ValueError("out_of_range", f"This must be a whole number from 1 to {LIMITS[name]:,}; empty: no limit.")
    return value


_JUDGES: dict[str, Callable[[type[Provider], str, Any], Any]] = {
    "base_url": _base_url,
    **dict.fromkeys(SECRETS, _secret),
    "options": options,
    **dict.fromkeys(LIMITS, _limit),
}
FIELDS = tuple(_JUDGES)


def _row(field: str, code: str, detail: str) -> Row:
    return {"field": field, "code": code, "detail": detail}


def refuse(field: str, code: str, detail: str) -> InvalidSetting:
    """One wrong field."""
    return InvalidSetting([_row(field, code, detail)])
