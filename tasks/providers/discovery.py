"""Finds what the installed apps bring, as the admin finds their `admin.py`."""

from importlib import import_module

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import module_has_submodule


def load(name: str) -> None:
    """Import the module of this name in every installed app that has one. Raises ImproperlyConfigured, naming it."""
    for app in apps.get_app_configs():
        if module_has_submodule(app.module, name):  # type: ignore[arg-type]
            _import(f"{app.name}.{name}")


def _import(name: str) -> None:
    try:
        import_module(name)
    except Exception as error:
        raise ImproperlyConfigured(
            f"{name} cannot be loaded ({type(error).__name__}: {error}). Correct it, or take its app out of "
            "ROUNDTRIP_APPS; the traceback above shows the line."
        ) from error
