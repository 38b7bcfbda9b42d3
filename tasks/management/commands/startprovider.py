"""`manage.py startprovider NAME [FOLDER]`: the adapter of a provider with its tests, in a new app or in yours."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tasks import providers
from tasks.management import copying


class Command(BaseCommand):
    help = "Make the adapter of a provider of yours, copied from examples/extension. Nothing is overwritten."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the adapter: small letters, digits, underscores; it stays")
        parser.add_argument("folder", nargs="?", default=".", help="where a new app is made; here, if not said")
        parser.add_argument("--app", metavar="FOLDER", help="put it into this app of yours instead of a new one")

    def handle(self, *args: Any, name: str, folder: str, app: str | None, **options: Any) -> None:
        copying.usable(name, providers.adapters(), "provider's adapter")
        files = {"providers.py": "providers.py", "tests/test_providers.py": "tests/test_providers.py"}
        files["tests/courier.py"] = f"tests/{name}.py"
        if app is None:
            copying.importable(name)
            target = Path(folder) / name
            files |= {"__init__.py": "__init__.py", "tests/__init__.py": "tests/__init__.py"}
        else:
            target = Path(app)
            if not (target / "__init__.py").is_file():
                raise CommandError(f"{app} is no app: it has no __init__.py. Nothing was written.", returncode=2)
            if not (target / "tests" / "__init__.py").exists():
                files["tests/__init__.py"] = "tests/__init__.py"
        camel = "".join(part.capitalize() for part in name.split("_"))
        words = {"parcel": target.resolve().name, "courier": name, "Courier": camel, "COURIER": name.upper()}
        made = copying.copy(files, target, words)
        entry = copying.entry_of(target)
        self.stdout.write("\n".join(f"  {path}" for path in made))
        self.stdout.write(
            f"Write in {target / 'providers.py'} how it is called and what it answers. Then, in the clone:\n"
            f"  ROUNDTRIP_ENV=test ROUNDTRIP_APPS={entry} .venv/bin/python -m pytest {target}\n"
            f"  ROUNDTRIP_APPS={entry} bin/up\n"
            f"and, beside it, an account and a kind that goes there:\n"
            f"  ./manage.py accounts add {name} --adapter {name} --base-url https://…\n"
            f"  ./manage.py kinds set KIND --account {name}"
        )
