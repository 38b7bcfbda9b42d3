"""Small pieces that the console's templates share: moments, ages, numbers. Everything is escaped."""

from datetime import datetime
from typing import Any

from django import template
from django.contrib.humanize.templatetags.humanize import intcomma
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from kernel import clock

register = template.Library()
NOTHING = "–"
STAND_IN = 7_700_000_000_000


@register.simple_tag
def address(name: str, *parts: Any) -> str:
    """As `url`; empty where a part is missing, as it is in the rows that the page fills in later."""
    return "" if any(part in ("", None) for part in parts) else reverse(name, args=parts)


@register.simple_tag
def live_address(name: str, *parts: str) -> str:
    """The address with its fields left open for live.js to fill in: of "batch" and "{id}", the batch page of any id."""
    stand_ins = {str(STAND_IN + place): part for place, part in enumerate(parts) if part.startswith("{")}
    known = {part: number for number, part in stand_ins.items()}
    found = reverse(name, args=[known.get(part, part) for part in parts])
    for number, part in stand_ins.items():
        found = found.replace(number, part)
    return found


def _moment(value: Any) -> datetime | None:
    return parse_datetime(value) if isinstance(value, str) and value else value or None


@register.simple_tag
def moment(value: Any, name: str = "") -> SafeString:
    """A point in time: UTC without JavaScript, the viewer's own zone with it, UTC always in the title."""
    at = _moment(value)
    if at is None:
        return format_html('<time data-live-time="{}"></time>', name)
    words = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return format_html(
        '<time data-live-time="{}" datetime="{}" title="{}">{}</time>',
        name,
        at.isoformat(),
        words,
        f"{at:%d %b %H:%M:%S}",
    )


@register.simple_tag
def age(value: Any, name: str = "") -> SafeString:
    """How long ago, counted on by the page."""
    at = _moment(value)
    if at is None:
        return format_html('<time data-live-age="{}">{}</time>', name, NOTHING)
    seconds = max(0, int((clock.now() - at).total_seconds()))
    return format_html(
        '<time data-live-age="{}" datetime="{}" title="{}">{}</time>',
        name,
        at.isoformat(),
        f"{at:%Y-%m-%d %H:%M:%S} UTC",
        age_words(seconds),
    )


def age_words(seconds: int) -> str:
    """As `ageWords` in live.js."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


@register.filter
def figure(value: Any) -> str:
    """A number with its thousands apart; a dash where there is none."""
    return NOTHING if value is None or value == "" else intcomma(value)


@register.filter
def words(value: Any) -> str:
    """A reason word as people read it: `server_error` is "server error"."""
    return str(value).replace("_", " ")
