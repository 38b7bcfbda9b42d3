"""Celery's settings: queues, routing, and the limits that keep a sick broker from hurting a request."""

from typing import Any

from django.conf import settings

broker_url = settings.CELERY_BROKER_URL or None
task_ignore_result = True
task_acks_late = True
task_reject_on_worker_lost = False  # the lease in the database brings the work back, bounded
worker_prefetch_multiplier = 1
task_default_queue = "default"
task_routes = {"delivery.drain": {"queue": "delivery"}, "tasks.*": {"queue": "tasks"}}
timezone = "UTC"
enable_utc = True
task_serializer = "json"
accept_content = ["json"]
broker_connection_retry_on_startup = True
broker_connection_max_retries = None
broker_pool_acquire_timeout = 5
task_publish_retry = True
task_publish_retry_policy = {
    "max_retries": 1,
    "interval_start": 0.1,
    "interval_step": 0.2,
    "interval_max": 0.5,
}
worker_send_task_events = False
worker_hijack_root_logger = False
worker_cancel_long_running_tasks_on_connection_loss = False
worker_soft_shutdown_timeout = 20
beat_max_loop_interval = 5


def _transport_options(url: str) -> dict[str, Any]:
    if url.startswith("amqp"):
        return {"confirm_publish": True, "confirm_timeout": 4}
    return {
        "visibility_timeout": 3600,
        "socket_timeout": 10,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "max_retries": 1,
    }


broker_transport_options = _transport_options(settings.CELERY_BROKER_URL)
