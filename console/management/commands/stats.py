"""`manage.py stats [--json]`: the figures of `/stats/`, for people or for scripts."""

import json
from typing import Any

from django.core.management.base import CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from console.api.overview import summary
from kernel.management import base
from kernel.management.arguments import short

ROWS = (
    ("pending", "pending"),
    ("awaiting_retry", "waiting to retry"),
    ("in_flight", "in flight"),
    ("dead_letter", "dead letters"),
    ("held", "held"),
    ("failed_last_hour", "failed tries, last hour"),
    ("oldest_pending", "oldest waiting, seconds"),
)


class Command(base.Command):
    help = "How many deliveries and tasks are in which state, and what waits longest."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")
        parser.add_argument("--subscriber", type=short(0, 100), help="only this subscriber's")

    def handle(self, *args: Any, **options: Any) -> None:
        row = summary(options["subscriber"])
        if options["json"]:
            self.stdout.write(json.dumps(row, cls=DjangoJSONEncoder))
            return
        tasks = row["tasks"]
        self.stdout.write(f"{'':28}{'deliveries':>12}{'tasks':>12}")
        for name, words in ROWS:
            self.stdout.write(f"{words:28}{_figure(row.get(name)):>12}{_figure(tasks.get(name)):>12}")
        finished = _figure(row["delivered_last_hour"]), _figure(tasks["succeeded_last_hour"])
        self.stdout.write(f"{'delivered, succeeded, hour':28}{finished[0]:>12}{finished[1]:>12}")
        if words := row.get("noticed_last_hour", {}).get("words"):
            self.stdout.write(words)
        for warning in row.get("warnings", []):
            self.stdout.write(f"Warning: {warning}")


def _figure(value: Any) -> str:
    return "–" if value is None else f"{value:,}"
