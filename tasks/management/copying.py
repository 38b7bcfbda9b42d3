"""A new app from `examples/extension/parcel`: its files with other names in them, never over a file that is there."""

import keyword
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError

EXAMPLE = settings.BASE_DIR / "examples" / "extension" / "parcel"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
BAD_INPUT = 2


def usable(name: str, taken: Mapping[str, object], what: str) -> str:
    """The name, where it can be one of a package and of a `what`. Raises CommandError."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise _refused(f"{name[:60]!r} cannot be the name. Use small letters, digits and underscores, a letter first.")
    if name in taken:
        raise _refused(f"There is a {what} called {name}. Choose another name.")
    return name


def importable(name: str) -> None:
    """Raises CommandError where the name of a new package would hide another module, or be hidden by it."""
    if find_spec(name) is not None:
        raise _refused(f"There is a Python module called {name}. Choose another name.")


def copy(files: Mapping[str, str], into: Path, words: Mapping[str, str]) -> list[Path]:
    """Write each file of the example under its new name; all or none. Raises CommandError."""
    if not into.parent.is_dir():
        raise _refused(f"There is no folder {into.parent}. Make it first.")
    targets = {into / new: _renamed((EXAMPLE / old).read_text(encoding="utf-8"), words) for old, new in files.items()}
    there = [str(path) for path in targets if path.exists()]
    if there:
        raise _refused(f"There is already {', '.join(there)}. It is not overwritten.")
    for path, text in targets.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(targets)


def _renamed(text: str, words: Mapping[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def entry_of(folder: Path) -> str:
    """What `ROUNDTRIP_APPS` needs to find it: short where it lies in the clone."""
    folder = folder.resolve()
    if not folder.is_relative_to(settings.BASE_DIR):
        return str(folder)
    short = str(folder.relative_to(settings.BASE_DIR))
    return short if "/" in short else f"./{short}"


def _refused(words: str) -> CommandError:
    return CommandError(f"{words} Nothing was written.", returncode=BAD_INPUT)
