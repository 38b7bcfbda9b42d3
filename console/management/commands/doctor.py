"""`manage.py doctor [--json]`: what is reachable, what is misconfigured, what to do. Exit 1 if something is wrong."""

import json
import sys
from typing import Any

from django.core.management.base import CommandParser

from console.health import doctor
from kernel.management import base


class Command(base.Command):
    help = "Check everything Roundtrip needs, and say what to do about what is wrong."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        checks = doctor.examine()
        is_well = all(check.is_ok for check in checks)
        if options["json"]:
            body = {
                "ok": is_well,
                "checks": {check.name: {"ok": check.is_ok, "detail": check.words} for check in checks},
                "environment": doctor.environment(),
            }
            self.stdout.write(json.dumps(body))
        else:
            self._show(checks)
        if not is_well:
            sys.exit(1)

    def _show(self, checks: list[doctor.Check]) -> None:
        for check in checks:
            mark = self.style.SUCCESS("ok  ") if check.is_ok else self.style.ERROR("BAD ")
            self.stdout.write(f"{mark} {check.name.replace('_', ' '):28} {check.words}")
        self.stdout.write("\nEnvironment (secrets are not shown):")
        for row in doctor.environment():
            value = row["value"] if row["is_set"] else "(not set)" if not row["value"] else f"{row['value']} (default)"
            self.stdout.write(f"     {row['name']:28} {value}")
        wrong = sum(not check.is_ok for check in checks)
        self.stdout.write("\nAll is well." if not wrong else f"\n{wrong} to mend; each line above says how.")
