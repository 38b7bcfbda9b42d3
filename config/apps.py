"""The roof as a Django app, so that its system checks and commands are found."""

from django.apps import AppConfig


class RoundtripConfig(AppConfig):
    name = "config"
    verbose_name = "Roundtrip"

    def ready(self) -> None:
        from config import checks  # noqa: F401
