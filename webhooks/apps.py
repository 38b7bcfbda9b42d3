"""The app `webhooks`."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "webhooks"
    verbose_name = "Inbound"

    def ready(self) -> None:
        """Calls that came before the start call's answer are parked: look at them when job ids arrive."""
        from tasks.engine.wake import when_jobs_are_named
        from webhooks import checks  # noqa: F401 - Django finds system checks by import
        from webhooks.wake import SWEEP_INBOX

        when_jobs_are_named(SWEEP_INBOX)
