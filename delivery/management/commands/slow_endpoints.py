"""`manage.py slow_endpoints`: endpoints whose p95 of the last 24 hours is above two seconds, slowest first."""

import json
from typing import Any

from django.core.management.base import CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from delivery.stats import slow_endpoints
from kernel.management import base
from kernel.management.arguments import measure, whole


class Command(base.Command):
    help = "Endpoints that get slow before they fail (p95 over 2 s, at least 20 samples)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--p95-ms", type=measure, default=2_000)
        parser.add_argument("--samples", type=whole(1), default=20)
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        found = slow_endpoints(p95_ms=options["p95_ms"], samples=options["samples"])
        if options["json"]:
            self.stdout.write(json.dumps({"endpoints": found}, cls=DjangoJSONEncoder))
            return
        if not found:
            self.stdout.write(f"No endpoint has a p95 above {options['p95_ms']:g} ms.")
            return
        self.stdout.write(f"{'endpoint':>8}  {'host':<40}{'p50':>8}{'p95':>8}{'p99':>8}{'samples':>9}  day before")
        for row in found:
            before = row["p95_day_before_ms"]
            self.stdout.write(
                f"{row['id']:>8}  {row['host'][:39]:<40}{row['p50_ms'] or 0:>8.0f}{row['p95_ms']:>8.0f}"
                f"{row['p99_ms'] or 0:>8.0f}{row['sample_count']:>9,}  {'-' if before is None else f'{before:.0f} ms'}"
            )
        self.stdout.write("Ask the receiver, lower the endpoint's concurrency, or set a rate limit.")
