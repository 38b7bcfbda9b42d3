"""`manage.py rotate_master_key`: every stored secret under the first of MASTER_KEYS."""

import json
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from kernel.rotation import places, rotate


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
        for place in places():
            try:
                counts[str(place)] = rotate(place, self._progress(str(place)))
            except InvalidToken:
                raise CommandError(
                    f"A secret in {place} opens with none of the {len(settings.MASTER_KEYS)} master keys. Put the key "
                    "it was made with back at the end of MASTER_KEYS, and run this again."
                ) from None
        if options["json"]:
            self.stdout.write(json.dumps(counts))
            return
        for name, number in counts.items():
            self.stdout.write(f"{number:>8}  {name}")
        self.stdout.write("All of these open with the first master key now; the others can be removed.")

    def _progress(self, name: str) -> Any:
        if not self.stderr.isatty():
            return lambda done: None
        return lambda done: self.stderr.write(f"\r{done:>8}  {name}", ending="")
