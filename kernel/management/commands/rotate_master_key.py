"""`manage.py rotate_master_key`: every stored secret under the first of MASTER_KEYS."""

import json
from typing import Any

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from kernel.rotation import places, rotate

NAMED = 20


class Command(BaseCommand):
    help = (
        "Re-encrypt all stored secrets with the first master key. To rotate: put a new key in front of MASTER_KEYS, "
        "restart every process, run this, then remove the old key and restart again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--new-key", action="store_true", help="only print a fresh key to put in front")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["new_key"]:
            self.stdout.write(Fernet.generate_key().decode())
            return
        counts: dict[str, int] = {}
        closed: list[str] = []
        for place in places():
            counts[str(place)], unopened = rotate(place, self._progress(str(place)))
            closed += [f"{place} of {pk}" for pk in unopened]
        if options["json"]:
            self.stdout.write(json.dumps(counts))
        else:
            for name, number in counts.items():
                self.stdout.write(f"{number:>8}  {name}")
        if closed:
            more = f" and {len(closed) - NAMED:,} more" if len(closed) > NAMED else ""
            raise CommandError(
                f"None of the {len(settings.MASTER_KEYS)} master keys opens: {', '.join(closed[:NAMED])}{more}. Put "
                "the key they were made with back at the end of MASTER_KEYS and run this again, or set them anew. All "
                "others are under the first key now."
            )
        if options["json"]:
            return
        self.stdout.write("All of these open with the first master key now; the others can be removed.")

    def _progress(self, name: str) -> Any:
        if not self.stderr.isatty():
            return lambda done: None
        return lambda done: self.stderr.write(f"\r{done:>8}  {name}", ending="")
