"""`manage.py redrive`: dead letters of a filter go again, oldest first, in chunks."""

import json
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from delivery import lifecycle
from delivery.dead_letters import dead_letters, groups, id_chunks, kept_count, left_out_words, redrivable
from delivery.models import Endpoint
from delivery.policy.outcomes import Outcome
from kernel.management import base
from kernel.management.arguments import moment, short, whole

MAX_REASON = 300  # what the audit trail keeps of it


class Command(base.Command):
    help = "Redrive dead letters: new attempts with the same webhook-id. Name a filter, or --all."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--endpoint", type=whole(1, 2**63 - 1))
        parser.add_argument("--subscriber", type=short(1, 100), help="whose; for the operators' own say --own")
        parser.add_argument("--own", action="store_true", help="of endpoints without a subscriber: the operators' own")
        parser.add_argument(
            "--outcome", choices=[str(word) for word in Outcome], metavar="WORD", help="e.g. server_error"
        )
        parser.add_argument("--status-code", type=whole(100, 999))
        parser.add_argument("--group", type=short(1, 32), help="fingerprint of a group")
        parser.add_argument("--since", type=moment, help="died at or after")
        parser.add_argument("--until", type=moment, help="died before")
        parser.add_argument("--all", action="store_true", help="every dead letter there is")
        parser.add_argument("--reason", type=short(0, MAX_REASON), default="redriven by command")
        parser.add_argument("--rate", type=whole(0), default=0, help="at most so many a second; 0: no limit")
        parser.add_argument("--dry-run", action="store_true", help="only count, by cause")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        names = ("endpoint", "subscriber", "outcome", "status_code", "group", "since", "until")
        if options["own"]:
            if options["subscriber"] is not None:
                raise CommandError("Say --subscriber or --own, not both.")
            options["subscriber"] = ""
        if options["endpoint"] and not Endpoint.objects.filter(pk=options["endpoint"]).exists():
            raise CommandError(f"There is no endpoint {options['endpoint']}.")
        chosen = {name: options[name] for name in names if options[name] is not None}
        if not chosen and not options["all"]:
            raise CommandError("Name a filter (--endpoint, --since, …), or say --all.")
        rows = redrivable(dead_letters(**chosen))
        total = rows.count()
        if words := left_out_words(kept_count(dead_letters(**chosen))):
            self.stderr.write(words)
        if options["dry_run"]:
            self._preview(rows, total, options["json"])
            return
        redriven = self._redrive(rows, total, options["reason"], options["rate"])
        if options["json"]:
            self.stdout.write(json.dumps({"matched": total, "redriven": redriven}))
        else:
            self.stdout.write(f"Redriven: {redriven:,} of {total:,} dead letters.")

    def _preview(self, rows: Any, total: int, as_json: bool) -> None:
        found = groups(rows)
        if as_json:
            named = ("endpoint", "endpoint_name", "subscriber", "count")
            causes = [{"group": g.fingerprint, **{name: getattr(g, name) for name in named}} for g in found]
            self.stdout.write(json.dumps({"matched": total, "redriven": 0, "dry_run": True, "groups": causes}))
            return
        if not total:
            self.stdout.write("No dead letter is meant by this; nothing would be redriven.")
            return
        self.stdout.write(f"{total:,} dead letter{'' if total == 1 else 's'} would be redriven:")
        for group in found:
            cause = f"{group.outcome} {group.status_code or ''}".strip()
            self.stdout.write(f"{group.count:>9,}  {group.label}  {cause}  {group.error}")

    def _redrive(self, rows: Any, total: int, reason: str, rate: int) -> int:
        redriven, seen, started = 0, 0, time.monotonic()
        size = min(1_000, rate) if rate else 1_000
        for ids in id_chunks(rows, size):
            redriven += int(lifecycle.redrive(ids, actor="command", reason=reason))
            seen += len(ids)
            if time.monotonic() - started > 2:
                self.stderr.write(f"\r{seen:,} of {total:,}", ending="")
            if rate:
                time.sleep(max(0.0, seen / rate - (time.monotonic() - started)))
        return redriven
