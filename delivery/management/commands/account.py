"""`manage.py account --day D`: does every recorded event balance? Exit 1, with the event ids, where it does not."""

import csv
import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from delivery.maintenance.accounting import Account, account
from kernel import clock
from kernel.management import base
from kernel.management.arguments import day, short

FIGURES = ("recorded", "delivered", "waiting", "held", "dead", "discarded", "unmatched", "difference")


class Command(base.Command):
    help = "recorded = delivered + waiting + held + dead + discarded + unmatched, for one UTC day of recording."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--day", type=day, help="e.g. 2026-11-29; today if not said")
        parser.add_argument("--subscriber", type=short(0, 100))
        parser.add_argument("--csv", action="store_true")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        result = account(options["day"] or clock.now().date(), options["subscriber"])
        if options["json"]:
            self._json(result)
        elif options["csv"]:
            self._csv(result)
        else:
            self._table(result)
        if not result.balances:
            for uid in result.broken:
                self.stderr.write(uid)
            self.stderr.write("It does not balance: deliveries of the events above are missing, or were added by hand.")
            sys.exit(1)

    def _json(self, result: Account) -> None:
        lines = [line.as_dict() for line in result.lines]
        whole = {"day": result.day.isoformat(), "balances": result.balances, "difference": result.difference}
        self.stdout.write(
            json.dumps({**whole, "lines": lines, "events": result.broken, "parked": list(map(asdict, result.parked))})
        )

    def _csv(self, result: Account) -> None:
        writer = csv.writer(self.stdout)
        writer.writerow(["day", "subscriber", *FIGURES])
        for line in result.lines:
            values = line.as_dict()
            writer.writerow([values["day"], _harmless(line.subscriber), *(values[name] for name in FIGURES)])

    def _table(self, result: Account) -> None:
        self.stdout.write(f"{result.day}  {'subscriber':<24}" + "".join(f"{name:>12}" for name in FIGURES))
        for line in result.lines:
            values = line.as_dict()
            who = line.subscriber or "(operators)"
            self.stdout.write(f"{'':<12}{who[:24]:<24}" + "".join(f"{values[name]:>12,}" for name in FIGURES))
        for parked in result.parked:
            self.stdout.write(str(parked))
        self.stdout.write("It balances." if result.balances else "It does NOT balance.")


def _harmless(text: str) -> str:
    """A cell that a spreadsheet does not run."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
