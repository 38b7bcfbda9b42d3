"""The app `delivery`."""

from django.apps import AppConfig


class DeliveryConfig(AppConfig):
    name = "delivery"
    verbose_name = "Events out"

    def ready(self) -> None:
        from delivery import checks  # noqa: F401 - Django finds system checks by import
