"""`manage.py prune`: forget what is past its time, after it was counted into the daily totals."""

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from delivery.maintenance import partitions, retention
from kernel import clock
from kernel.management import base


class Command(base.Command):
    help = "Remove old events with their deliveries, attempts and minutes, in bounded chunks."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count the events that would go")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        now = clock.now()
        pruned = retention.prune(now=now, budget_seconds=3600, dry_run=options["dry_run"])
        dropped: list[str] = []
        if not options["dry_run"]:
            dropped = partitions.drop_before((now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS)).date())
        if options["json"]:
            self.stdout.write(json.dumps({**asdict(pruned), "partitions": dropped, "dry_run": options["dry_run"]}))
            return
        verb = "would be removed" if options["dry_run"] else "removed"
        self.stdout.write(
            f"{pruned.events:,} events {verb}, with {pruned.deliveries:,} deliveries "
            f"({pruned.dead_letters:,} dead letters); {len(dropped)} days of attempts dropped."
        )
        if not pruned.is_done:
            self.stdout.write("There is more; run it again.")
