"""`manage.py reconcile`: ask the providers about every open external job now, and repair what webhooks missed."""

import json
from argparse import ArgumentParser
from typing import Any

from kernel import clock, correlation
from kernel.management import base
from tasks.external.reconcile import ReconcileReport, reconcile

SHOWN = 50


class Command(base.Command):
    help = "Compare every open external job with its provider, and repair the differences."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only ask and show; change nothing.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 where a provider could not be asked."""
        with correlation.bind(None):
            report = reconcile(clock.now(), dry_run=options["dry_run"], force=True)
        if options["json"]:
            self.stdout.write(json.dumps(report.shown(), ensure_ascii=False, default=str))
        else:
            self._print(report, options["dry_run"])
        if report.unreachable:
            raise SystemExit(1)

    def _print(self, report: ReconcileReport, dry_run: bool) -> None:
        if not report.asked and not report.unreachable:
            self.stdout.write("No external job is open; there is nothing to ask about.")
        else:
            self.stdout.write(f"Asked about {report.asked} open jobs.")
        for row in report.differences[:SHOWN]:
            self.stdout.write(f"  task {row['task_id']}: ours {row['ours']}, theirs {row['theirs']}; {row['would']}")
        if len(report.differences) > SHOWN:
            self.stdout.write(f"  and {len(report.differences) - SHOWN} more; --json lists all.")
        if dry_run:
            self.stdout.write(f"{len(report.differences)} would change. Nothing was changed.")
        else:
            self.stdout.write(
                f"Changed {report.changed}, adopted {report.adopted} orphaned starts, gave up {report.lost} lost and "
                f"{report.timed_out} overdue jobs; {report.not_found} were not found this time."
            )
        for provider, why in report.unreachable.items():
            self.stderr.write(f"{provider} could not be asked: {why.replace('_', ' ')}.")
