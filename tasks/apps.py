"""The app `tasks`."""

from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "tasks"
    verbose_name = "Work"

    def ready(self) -> None:
        from tasks import (
            checks,  # noqa: F401
            follow_ups,  # noqa: F401 - says that it carries them out
            kinds,
            providers,
        )

        kinds.discover()
        providers.discover()
