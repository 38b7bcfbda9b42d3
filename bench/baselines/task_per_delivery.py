"""The usual Python pattern: one Celery task per delivery, which reads its row by Django's ORM, posts it with
`requests`, and writes row and attempt. Celery's defaults and a real broker. In its favour the database connection is
kept from task to task; by default Celery closes it after each.
"""

from __future__ import annotations

import json
import os
import time

import django
import requests
from celery import Celery
from django.apps import apps
from django.db import models
from django.utils import timezone

from bench.baselines.queue import SECRET
from sandbox.signing import secret_bytes, sign

QUEUE = "bench_task_per_delivery"
KEY = secret_bytes(SECRET)
TIMEOUT_SECONDS = 15

app = Celery("task_per_delivery", broker=os.environ.get("CELERY_BROKER_URL"))
app.conf.update(
    task_default_queue=QUEUE,
    task_ignore_result=True,
    CELERY_DB_REUSE_MAX=1_000_000,
    broker_connection_retry_on_startup=True,
)

if not apps.ready:
    django.setup()


class Delivery(models.Model):
    """A row of `queue`."""

    endpoint_id = models.IntegerField()
    url = models.TextField()
    payload = models.JSONField()
    status = models.TextField(default="pending")
    attempt_count = models.IntegerField(default=0)
    delivered_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    last_status_code = models.IntegerField(null=True)
    last_response_ms = models.IntegerField(null=True)

    class Meta:
        app_label, db_table, managed = "bench_baselines", "bench_queue", False

    def __str__(self) -> str:
        return f"Delivery {self.pk}"


class Attempt(models.Model):
    """A row of `queue`'s latency table."""

    endpoint_id = models.IntegerField()
    response_ms = models.IntegerField()
    status_code = models.IntegerField(null=True)
    measured_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label, db_table, managed = "bench_baselines", "bench_latency", False

    def __str__(self) -> str:
        return f"Attempt {self.pk}"


@app.task(name="bench.deliver", bind=True, max_retries=5)
def deliver(self, pk: int) -> None:
    """Send one delivery; retried by Celery."""
    delivery = Delivery.objects.get(pk=pk)
    delivery.attempt_count += 1
    body = json.dumps(delivery.payload).encode()
    name, moment = b"task_%d" % pk, b"%d" % time.time()
    headers = {
        "content-type": "application/json",
        "webhook-id": name.decode(),
        "webhook-timestamp": moment.decode(),
        "webhook-signature": sign(KEY, name, moment, body).decode(),
    }
    began = time.monotonic()
    try:
        response = requests.post(delivery.url, data=body, headers=headers, timeout=TIMEOUT_SECONDS)
        response.raise_for_status()
    except requests.RequestException as error:
        raise self.retry(exc=error, countdown=30) from error
    delivery.status, delivery.delivered_at = "delivered", timezone.now()
    delivery.last_status_code = response.status_code
    delivery.last_response_ms = int((time.monotonic() - began) * 1000)
    delivery.save()
    Attempt.objects.create(
        endpoint_id=delivery.endpoint_id, response_ms=delivery.last_response_ms, status_code=response.status_code
    )


def publish(count: int) -> None:
    """One message for each row; before its workers start, so that publishing costs it nothing."""
    with app.producer_pool.acquire() as producer:
        for pk in range(1, count + 1):
            deliver.apply_async((pk,), producer=producer)


if __name__ == "__main__":
    import sys

    publish(int(sys.argv[1]))
