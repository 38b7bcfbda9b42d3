"""The ground floor as a Django app."""

from django.apps import AppConfig


class KernelConfig(AppConfig):
    name = "kernel"
    verbose_name = "Access"

    def ready(self) -> None:
        from kernel.api import openapi  # noqa: F401 - drf-spectacular finds its extensions by import
