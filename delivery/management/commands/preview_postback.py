"""`manage.py preview_postback ENDPOINT EVENT`: the request as it would be sent. Sends nothing."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from delivery import previews
from delivery.models import Endpoint, Event
from delivery.policy.postback import FieldRefused, TemplateInvalid
from kernel.management import base
from kernel.management.arguments import short, whole
from kernel.network.addresses import AddressRefused
from kernel.secrets import UndecryptableSecret


class Command(base.Command):
    help = "Render an endpoint's postback for an event. The rendered URL is a secret: mind where you paste it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", type=whole(1, 2**63 - 1))
        parser.add_argument("event", type=short(1, 64), help="id or uid")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        endpoint = Endpoint.objects.filter(pk=options["endpoint"]).first()
        if endpoint is None:
            raise CommandError(f"There is no endpoint {options['endpoint']}.")
        shown = self._preview(endpoint, self._event(options["event"]))
        if options["json"]:
            self.stdout.write(json.dumps(asdict(shown), ensure_ascii=False))
            return
        self.stdout.write(f"{shown.method} {shown.url}")
        if shown.body:
            self.stdout.write(f"content-type: {shown.content_type}\n\n{shown.body}")
        if shown.missing_fields:
            self.stdout.write(f"Filled by the policy for missing fields: {', '.join(shown.missing_fields)}")

    def _event(self, name: str) -> Event:
        events = Event.objects.defer("payload")  # `envelope_of` reads it where it is short enough
        event = events.filter(uid=name).first()
        if event is None and name.isdecimal() and int(name) < 2**63:
            event = events.filter(pk=int(name)).first()
        if event is None:
            raise CommandError(f"There is no event {name!r}.")
        return event

    def _preview(self, endpoint: Endpoint, event: Event) -> previews.Preview:
        try:
            return previews.preview(endpoint, previews.envelope_of(event))
        except UndecryptableSecret as error:
            raise CommandError(str(error)) from None
        except (FieldRefused, TemplateInvalid, AddressRefused) as error:
            raise CommandError(f"This event cannot be sent there: {error.detail}") from None
