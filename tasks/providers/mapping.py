"""From a kind's input to a provider's, and from its places to ours. Pure.

A template is a JSON object whose texts name fields of the input in braces: `{trade}`, `{business.name}`, `{input}` for
all of it. A text that is nothing but one name becomes that value itself, with its type; where the input has no such
field, its key is left out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tasks.providers.base import ProviderRejected
from tasks.providers.payloads import at

_NAME = re.compile(r"\{([A-Za-z_][\w.]*)\}")
_NOTHING = object()
WHOLE = "input"
# Ours → theirs: the first that says something of the right type. `fields` of the options goes before it.
PLACE: dict[str, tuple[str, ...]] = {
    "id": ("place_id", "placeId", "google_id", "id"),
    "name": ("name", "title"),
    "category": ("category", "categoryName", "type"),
    "address": ("full_address", "address", "street"),
    "place": ("city", "place"),
    "country": ("country_code", "countryCode", "country"),
    "lat": ("latitude", "location.lat", "lat"),
    "lon": ("longitude", "location.lng", "location.lon", "lon"),
    "rating": ("rating", "totalScore"),
    "reviews": ("reviews", "reviewsCount"),
    "website": ("site", "website"),
    "phone": ("phone", "phoneUnformatted"),
}
_NUMBERS = {"lat": 90.0, "lon": 180.0, "rating": 5.0, "reviews": 1e12}  # and the largest that makes sense


def given_input(template: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The provider's input by the template of the options; without one, the input as it is. Raises ProviderRejected."""
    if template is None:
        return dict(given)
    made = filled(template, given)
    if not isinstance(made, dict):
        raise ProviderRejected("The option input has to be a JSON object, as the provider takes it.")
    return made


def filled(template: Any, given: Mapping[str, Any]) -> Any:
    """The template with the input's values in it."""
    made = _filled(template, given)
    return None if made is _NOTHING else made


def _filled(template: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(template, Mapping):
        items = ((key, _filled(value, given)) for key, value in template.items())
        return {key: value for key, value in items if value is not _NOTHING}
    if isinstance(template, list):
        return [value for item in template if (value := _filled(item, given)) is not _NOTHING]
    if not isinstance(template, str):
        return template
    if alone := _NAME.fullmatch(template):
        return _value(alone[1], given)
    return _NAME.sub(lambda name: _as_text(_value(name[1], given)), template)


def _value(path: str, given: Mapping[str, Any]) -> Any:
    found = dict(given) if path == WHOLE and WHOLE not in given else at(given, path)
    return _NOTHING if found is None else found


def _as_text(value: Any) -> str:
    if value is _NOTHING:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def places(items: Iterable[Any], fields: Any = None) -> tuple[list[dict[str, Any]], str]:
    """The provider's places as ours, and in words how many had to be left out: without a name or a position."""
    own = fields if isinstance(fields, Mapping) else {}
    names = {ours: (str(own[ours]),) if ours in own else theirs for ours, theirs in PLACE.items()}
    made, left_out = [], 0
    for item in items:
        place = {ours: value for ours, paths in names.items() if (value := _first(ours, item, paths)) is not None}
        if {"name", "lat", "lon"} <= place.keys():
            made.append(place)
        else:
            left_out += 1
    some = "1 place was" if left_out == 1 else f"{left_out:,} places were"
    return made, f"{some} left out: without a name or a position." if left_out else ""


def _first(ours: str, item: Any, paths: Iterable[str]) -> Any:
    return next((value for path in paths if (value := _fitting(ours, at(item, path))) is not None), None)


def _fitting(ours: str, value: Any) -> Any:
    """The value where it is of the right type; a number that came as text is still that number."""
    if ours not in _NUMBERS:
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and str(value) else None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _NUMBERS[ours]:
        return None
    return int(value) if ours == "reviews" else value
