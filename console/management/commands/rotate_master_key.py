"""`manage.py rotate_master_key`: every stored secret under the first of MASTER_KEYS."""

import json
from typing import Any

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from console.health import heartbeat, known_keys
from kernel.management import base
from kernel.rotation import left_behind, places, rotate
from kernel.secrets import master_keyring

NAMED = 20


class Command(base.Command):
    help = (
        "Re-encrypt all stored secrets with the first master key. docs/running.md says the order: every process gets "
        "the new key first. Refused while one that runs has another in front."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--new-key", action="store_true", help="only print a fresh key to put in front")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["new_key"]:
            self.stdout.write(Fernet.generate_key().decode())
            return
        master_keyring()
        self._require_the_key_everywhere()
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
        self._require_nothing_left(closed)
        if options["json"]:
            return
        self.stdout.write("All of these open with the first master key now; the others can be removed.")

    def _require_the_key_everywhere(self) -> None:
        behind = known_keys.processes_without_ours(heartbeat.NEED_NO_KEY, heartbeat.FRESH)
        if behind:
            raise CommandError(
                f"These processes have another key in front of MASTER_KEYS, or tell none: {_named(behind)}. They "
                "might not open what is rotated, or would go on with the old key. Restart them with the new one in "
                f"front; one that was killed counts for {heartbeat.FRESH.total_seconds():.0f} s more. "
                "Nothing was changed."
            )

    def _require_nothing_left(self, closed: list[str]) -> None:
        """Read once more what stands there: a process that started meanwhile may have written under an old key."""
        left = [f"{place} of {pk}" for place in places() for pk in left_behind(place)]
        late = [name for name in left if name not in set(closed)]
        others = "All others are under the first key now."
        if closed:
            others = f"{len(late):,} more were written under an old key meanwhile." if late else others
            raise CommandError(
                f"None of the {len(settings.MASTER_KEYS)} master keys opens: {_named(closed)}. Put the key they were "
                f"made with back at the end of MASTER_KEYS and run this again, or set them anew. {others}"
            )
        if late:
            raise CommandError(
                f"Written under an old key meanwhile: {_named(late)}. Some process or command started with another "
                f"key in front of MASTER_KEYS: restart it with the new one, and run this again. {others}"
            )

    def _progress(self, name: str) -> Any:
        if not self.stderr.isatty():
            return lambda done: None
        return lambda done: self.stderr.write(f"\r{done:>8}  {name}", ending="")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
