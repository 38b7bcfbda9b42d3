"""The app `console`."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "House"

    def ready(self) -> None:
        from console import checks  # noqa: F401
        from console.health import heartbeat  # noqa: F401 - workers and beat begin to beat by Celery's signals
