"""The Celery application: a wake-up, never the truth. Its settings are in `config.queues`."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("roundtrip")
app.config_from_object("config.queues")
app.autodiscover_tasks(related_name="workers")


@setup_logging.connect
def keep_our_logging(**_kwargs: object) -> None:
    """Celery leaves logging alone: `config.settings` has set it up already."""
