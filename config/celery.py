"""Celery: a wake-up, never the truth. Queues, routing and the limits that keep a sick broker from hurting a request."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings  # noqa: E402

app = Celery("roundtrip")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL or None,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=False,  # the lease in the database brings the work back, bounded
    worker_prefetch_multiplier=1,
    task_default_queue="default",
    task_routes={
        "delivery.drain": {"queue": "delivery"},
        "tasks.*": {"queue": "tasks"},
    },
    timezone="UTC",
    enable_utc=True,
    task_serializer="json",
    accept_content=["json"],
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_pool_acquire_timeout=5,
    task_publish_retry=True,
    task_publish_retry_policy={
        "max_retries": 1,
        "interval_start": 0.1,
        "interval_step": 0.2,
        "interval_max": 0.5,
    },
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_soft_shutdown_timeout=20,
    beat_max_loop_interval=5,
    beat_sync_every=1,
)
if settings.CELERY_BROKER_URL.startswith(("redis", "valkey")):
    app.conf.broker_transport_options = {
        "visibility_timeout": 3600,
        "socket_timeout": 10,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "max_retries": 1,
    }
elif settings.CELERY_BROKER_URL.startswith("amqp"):
    app.conf.broker_transport_options = {"confirm_publish": True, "confirm_timeout": 4}

app.autodiscover_tasks(related_name="workers")


@setup_logging.connect
def keep_our_logging(**_kwargs: object) -> None:
    """Celery leaves logging alone: `config.settings` has set it up already."""
