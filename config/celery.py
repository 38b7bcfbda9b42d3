"""The Celery application: a wake-up, never the truth. Its settings are in `config.queues`."""

import os

from celery.signals import setup_logging, worker_init

from kernel.messages import Messenger

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Messenger("roundtrip")
app.config_from_object("config.queues")
app.autodiscover_tasks(related_name="workers")


@setup_logging.connect
def keep_our_logging(**_kwargs: object) -> None:
    """Celery leaves logging alone: `config.settings` has set it up already."""


@worker_init.connect
def say_what_is_wrong(**_kwargs: object) -> None:
    """System checks speak in `manage.py` commands only; a worker that starts says their errors too."""
    import structlog
    from django.core.checks import ERROR, run_checks

    for message in run_checks():
        if message.level >= ERROR:
            structlog.get_logger(__name__).error(
                "misconfigured", check=message.id, detail=str(message.msg), hint=str(message.hint or "")
            )
