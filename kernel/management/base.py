"""The base of our commands: whatever goes wrong ends in words that say what to do, and in an exit code that is not 0.

A fault of ours stays a traceback. What is told here is of the caller's making, or of the machine's: an argument that no
column holds, a database that is away or not ours to use, a file that cannot be read.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, DataError, InterfaceError, OperationalError

from kernel.parsing import HostileJSON, refuse_text
from kernel.secrets import UndecryptableSecret

STOPPED = 130  # as a shell says of what Ctrl-C has ended
NOT_MIGRATED = {"42P01", "42703"}  # undefined table, undefined column
FORBIDDEN = {"42501"}
READ_ONLY = {"25006"}


class Command(BaseCommand):
    """A command of ours. `paths` names the arguments that are names of files, which need not be UTF-8."""

    paths: ClassVar[frozenset[str]] = frozenset()

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            self._refuse_unstorable(options)
            return super().execute(*args, **options)
        except BrokenPipeError:
            raise  # whoever read our output has enough: manage.py ends quietly
        except (DatabaseError, InterfaceError) as error:
            if (words := database_words(error)) is None:
                raise
            raise CommandError(words) from error
        except UndecryptableSecret as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(file_words(error)) from error
        except KeyboardInterrupt as error:
            raise CommandError("Stopped. What was done until now stays done.", returncode=STOPPED) from error

    def _refuse_unstorable(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            for text in _texts(value):
                try:
                    refuse_text(text.encode("utf-8", "replace").decode() if name in self.paths else text)
                except HostileJSON as error:
                    raise CommandError(f"{name.replace('_', '-')}: {error}. Write it without that.") from None


def database_words(error: Exception) -> str | None:
    """What to do about it; None where it is a fault of ours, which a traceback should tell."""
    state = getattr(error.__cause__, "sqlstate", None)
    first = str(error).strip().partition("\n")[0][:300]
    if state in NOT_MIGRATED:
        return f"The database is not migrated to this release ({first}). Run: python manage.py migrate"
    if state in FORBIDDEN:
        return f"The database's user may not do this: {first}. Grant it the right, or name its owner in DATABASE_URL."
    if state in READ_ONLY:
        return f"The database takes no writes: {first}. Name the primary server in DATABASE_URL."
    if isinstance(error, DataError):
        return f"A time, number or text is beyond what can be stored or compared ({first}). Give another."
    if isinstance(error, OperationalError | InterfaceError):
        return (
            f"The database does not answer: {first}. See that it runs and that DATABASE_URL names it (`manage.py "
            "doctor` says what else is wrong), and run this again."
        )
    return None


def file_words(error: OSError) -> str:
    why = error.strerror or str(error) or type(error).__name__
    if not error.filename:
        return f"The system refused it: {why}. Mend that, and run this again."
    return f"{error.filename} cannot be read or written: {why}. Mend that, or name another file."


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list | tuple) else []
