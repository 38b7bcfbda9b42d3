"""The package's Celery application; `python package_site.py URL WEBHOOKS EVENTS NOTE_BYTES` fills its queue."""

import os
import sys

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
app = Celery("published", broker=os.environ["CELERY_BROKER_URL"])
app.conf.update(task_default_queue="bench_published", broker_connection_retry_on_startup=True)
app.autodiscover_tasks()


def fill(url: str, webhooks: int, events: int, note_bytes: int) -> None:
    """Webhooks that want every new order, and so many orders: the package publishes one task for each pair."""
    import django

    django.setup()
    from django.core.management import call_command
    from django_webhook.models import Webhook, WebhookSecret, WebhookTopic, populate_topics_from_settings
    from shop.models import Order

    call_command("migrate", run_syncdb=True, verbosity=0)
    populate_topics_from_settings()
    topic = WebhookTopic.objects.get(name="shop.Order/create")
    for number in range(webhooks):
        webhook = Webhook.objects.create(url=f"{url}/{number}")
        webhook.topics.set([topic])
        WebhookSecret.objects.create(webhook=webhook, token="a-secret-of-the-bench")
    for _ in range(events):
        Order.objects.create(note="x" * note_bytes)


if __name__ == "__main__":
    app.set_default()
    fill(sys.argv[1], *map(int, sys.argv[2:5]))
