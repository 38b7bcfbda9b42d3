"""`manage.py prune`: forget what is past its time, on every side; what delivery forgets is counted first."""

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from console import retention as console_side
from delivery.maintenance import partitions
from delivery.maintenance import retention as delivery_side
from kernel import clock
from kernel.management import base

BUDGET_SECONDS = 3600.0


class Command(base.Command):
    help = "Remove what is past its retention: events, finished tasks and batches, operations, alerts, audit entries."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count what would go")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        now, is_dry = clock.now(), options["dry_run"]
        events = delivery_side.prune(now=now, budget_seconds=BUDGET_SECONDS, dry_run=is_dry)
        others = console_side.prune(now=now, budget_seconds=BUDGET_SECONDS, dry_run=is_dry)
        dropped: list[str] = []
        if not is_dry:
            dropped = partitions.drop_before((now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS)).date())
        if options["json"]:
            shown = {**asdict(events), "others": asdict(others), "partitions": dropped, "dry_run": is_dry}
            self.stdout.write(json.dumps(shown))
            return
        verb = "would be removed" if is_dry else "removed"
        self.stdout.write(
            f"{events.events:,} events {verb}, with {events.deliveries:,} deliveries "
            f"({events.dead_letters:,} dead letters); {len(dropped)} days of attempts dropped."
        )
        self._tell_others(others, verb)
        if not (events.is_done and others.is_done):
            self.stdout.write("There is more; run it again.")

    def _tell_others(self, others: console_side.Pruned, verb: str) -> None:
        tasks = others.tasks
        self.stdout.write(
            f"{tasks.tasks:,} tasks ({tasks.dead_letters:,} dead letters) and {tasks.batches:,} batches {verb}, "
            f"{tasks.kept_answers:,} kept answers, {tasks.schedule_runs:,} slots of schedules."
        )
        self.stdout.write(
            f"{others.operations:,} operations with {others.operation_items:,} outcomes {verb}, "
            f"{others.alerts:,} alerts, {others.audit_entries:,} audit entries."
        )
