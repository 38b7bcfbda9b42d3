"""`manage.py preview_postback ENDPOINT EVENT`: the request as it would be sent. Sends nothing."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from delivery import previews
from delivery.models import Endpoint, Event
from delivery.policy.postback import FieldRefused, TemplateInvalid
from kernel.network.addresses import AddressRefused
from kernel.secrets import UndecryptableSecret


class Command(BaseCommand):
    help = "Render an endpoint's postback for an event. The rendered URL is a secret: mind where you paste it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", type=int)
        parser.add_argument("event", help="id or uid")
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
        event = Event.objects.filter(uid=name).first()
        if event is None and name.isdigit():
            event = Event.objects.filter(pk=int(name)).first()
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
