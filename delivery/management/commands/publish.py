"""`manage.py publish TYPE JSON`: record one event and its deliveries."""

import json
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from delivery.errors import DeliveryError
from delivery.events import NewEvent, publish
from kernel.management import base
from kernel.management.inputs import bounded
from kernel.parsing import HostileJSON, strict_loads


class Command(base.Command):
    help = "Record an event; it goes to every endpoint of its subscriber that wants its type."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("type", help="e.g. order.paid")
        parser.add_argument("data", help="a JSON object, or - to read it from standard input")
        parser.add_argument("--subscriber", default="", help="whose event it is; none: the operators' own")
        parser.add_argument("--uid", help="your own id for it; the same uid is recorded once")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        most = settings.BODY_CAPS["/api/v1/events"]
        raw = bounded(sys.stdin.buffer, most, "The event") if options["data"] == "-" else options["data"].encode()
        try:
            data = strict_loads(raw, keeps_numbers=True)
            asked = NewEvent(options["type"], data, options["subscriber"], options["uid"], caller="command")
            (event,) = publish([asked])
        except (HostileJSON, DeliveryError) as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            answer = {"id": str(event.pk), "uid": event.uid, "state": event.state, "deliveries": event.delivery_count}
            self.stdout.write(json.dumps(answer))
        elif event.delivery_count:
            self.stdout.write(f"Event {event.uid} goes to {event.delivery_count} endpoint(s).")
        else:
            self.stdout.write(f"Event {event.uid} matches no endpoint. It is kept; replay it once there is one.")
