"""The app `tasks`."""

from django.apps import AppConfig


class TasksConfig(AppConfig):
    name = "tasks"
    verbose_name = "Work"

    def ready(self) -> None:
        from tasks import checks  # noqa: F401
