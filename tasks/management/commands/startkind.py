"""`manage.py startkind NAME [FOLDER]`: a new app with a kind of task, its result rule, what follows, and tests."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from tasks import kinds
from tasks.management import copying

FILES = {name: name for name in ("__init__.py", "kinds.py", "tests/__init__.py", "tests/test_kinds.py")}


class Command(BaseCommand):
    help = "Make an app of your own with a kind of task, copied from examples/extension. Nothing is overwritten."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the kind, and of the app: small letters, digits, underscores")
        parser.add_argument("folder", nargs="?", default=".", help="where the app's folder is made; here, if not said")

    def handle(self, *args: Any, name: str, folder: str, **options: Any) -> None:
        copying.usable(name, kinds.KINDS, "kind")
        copying.importable(name)
        app = Path(folder) / name
        made = copying.copy(FILES, app, {"parcel": name, "Parcel": name.replace("_", " ").capitalize()})
        entry = copying.entry_of(app)
        self.stdout.write("\n".join(f"  {path}" for path in made))
        self.stdout.write(
            f"Write in {app / 'kinds.py'} what goes in and when a result is good. Then, in the clone:\n"
            f"  ROUNDTRIP_ENV=test ROUNDTRIP_APPS={entry} .venv/bin/python -m pytest {app}\n"
            f"  ROUNDTRIP_APPS={entry} bin/up"
        )
