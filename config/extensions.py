"""Apps of others that `ROUNDTRIP_APPS` adds: by the name they are imported by, or by the folder they lie in."""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def apps(entries: Iterable[str], base: Path) -> list[str]:
    """What `INSTALLED_APPS` gets. Raises ImproperlyConfigured, naming the entry that cannot be used."""
    return [_checked(_named(entry, base)) for entry in entries]


def _named(entry: str, base: Path) -> str:
    """A folder is imported by its own name, from the folder around it; beside everything else, never before it."""
    if "/" not in entry:
        return entry
    folder = (base / entry).resolve()
    if not (folder / "__init__.py").is_file():
        raise ImproperlyConfigured(
            f"ROUNDTRIP_APPS names {entry}, but {folder} is no Python package: it has no __init__.py."
        )
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    return folder.name


def _checked(name: str) -> str:
    try:
        _import(name)
    except Exception as error:
        words = str(error).rstrip(".")
        raise ImproperlyConfigured(
            f"ROUNDTRIP_APPS names {name!r}, which cannot be imported ({type(error).__name__}: {words}). Write the "
            "name of an app that this Python finds, or the folder it lies in, with a slash: /srv/ours/tides."
        ) from error
    return name


def _import(name: str) -> None:
    """A package, or the path of an AppConfig in a module."""
    module, _, last = name.rpartition(".")
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if not module or error.name != name or not hasattr(import_module(module), last):
            raise
