"""`manage.py analyze_dead_letters --hours 24`: what pattern each endpoint's dead letters make, and what to change."""

import json
from typing import Any

from django.core.management.base import CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from delivery.dead_letters import analyze
from kernel import clock
from kernel.management import base
from kernel.management.arguments import short, whole


class Command(base.Command):
    help = "Per endpoint: how many died, the commonest error and code, first, last, mean attempts, and advice."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--hours", type=whole(1, 100_000), default=24)
        parser.add_argument("--subscriber", type=short(0, 100))
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = analyze(options["hours"], clock.now(), options["subscriber"])
        if options["json"]:
            found = [finding.as_dict() for finding in findings]
            self.stdout.write(json.dumps({"hours": options["hours"], "endpoints": found}, cls=DjangoJSONEncoder))
            return
        if not findings:
            self.stdout.write(f"No dead letters in the last {options['hours']} hours.")
        for finding in findings:
            letters = "letter" if finding.count == 1 else "letters"
            code = f", mostly {finding.common_status_code}" if finding.common_status_code else ""
            self.stdout.write(f"{finding.label}: {finding.count:,} dead {letters}{code}")
            self.stdout.write(
                f"  {finding.first_at:%Y-%m-%d %H:%M} to {finding.last_at:%Y-%m-%d %H:%M} UTC, "
                f"{finding.mean_attempts} attempts on average"
            )
            if finding.common_error:
                self.stdout.write(f"  commonest error: {finding.common_error}")
            for pattern in finding.patterns:
                self.stdout.write(f"  pattern: {pattern.replace('_', ' ')}")
            for advice in finding.advice:
                self.stdout.write(f"  → {advice}")
