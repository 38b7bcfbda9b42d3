"""What a postback would look like for an event, before it is saved or sent. Sends nothing, stores nothing.

A rendered URL is a secret: callers show it only to those who may see payloads.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

from delivery.events import payload_bytes
from delivery.models import Endpoint, Event
from delivery.policy import postback
from delivery.policy.postback import MASK, Template, check_template, masked, render
from kernel import clock
from kernel.counting import OctetLength

MOST_PREVIEWED = 1024 * 1024  # bytes of an event; read, it takes ten times as much
OVERRIDES = ("url", "method", "body_template", "body_content_type", "missing_field", "missing_default")


@dataclass(frozen=True)
class Preview:
    """The request as it would be sent."""

    method: str
    url: str = field(repr=False)
    body: str = field(repr=False)
    content_type: str
    fields_used: list[str]
    missing_fields: list[str]


def preview(endpoint: Endpoint, envelope: dict[str, Any]) -> Preview:
    """Render the endpoint's template. Raises TemplateInvalid, AddressRefused, or FieldRefused naming the field."""
    template = Template(
        url=endpoint.url,
        body=endpoint.body_template,
        content_type=endpoint.body_content_type,
        missing=endpoint.missing_field,
        default=endpoint.missing_default,
    )
    used = check_template(template)
    rendered = render(template, envelope)
    return Preview(
        method=endpoint.method,
        url=rendered.url,
        body=rendered.body.decode(),
        content_type=endpoint.body_content_type if rendered.body else "",
        fields_used=list(used),
        missing_fields=list(rendered.missing_fields),
    )


def with_changes(endpoint: Endpoint, changes: dict[str, Any]) -> Endpoint:
    """The endpoint as it would be after these changes, not saved."""
    values = {name: getattr(endpoint, name) for name in OVERRIDES}
    return Endpoint(**{**values, **{name: value for name, value in changes.items() if name in OVERRIDES}})


def envelope_of(event: Event) -> dict[str, Any]:
    """What a template's fields are looked up in. Raises FieldRefused, as the engine would refuse it.

    `event` has its payload deferred: one that was stored when events could be large is not read for a preview.
    """
    size = Event.objects.filter(pk=event.pk).values_list(OctetLength("payload"), flat=True).get()
    if size > MOST_PREVIEWED:
        words = f"This event has {size:,} bytes; up to {MOST_PREVIEWED:,} are previewed. Preview with a smaller one."
        raise postback.FieldRefused("too_large", "event", words)
    return postback.envelope_of(bytes(event.payload), event.uid)


def made_up(type: str, data: dict[str, Any]) -> dict[str, Any]:
    """An envelope for an event that was never recorded."""
    return postback.envelope_of(payload_bytes(type, clock.now(), data), "evt_example")


def hidden(shown: Preview, own: Container[str]) -> Preview:
    """The same for eyes that may not see the endpoint's URL and template; what is `own` they brought along."""
    return replace(
        shown,
        url=shown.url if "url" in own else masked(shown.url),
        body=shown.body if "body_template" in own or not shown.body else MASK,
    )
