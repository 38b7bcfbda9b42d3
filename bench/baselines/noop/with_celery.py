"""Plain Celery: a task that does nothing and whose result is stored. Its defaults, a real broker and result backend."""

from __future__ import annotations

import os
import sys

from celery import Celery

RESULTS_DB = 9
QUEUE = "bench_noop"

_broker = os.environ.get("CELERY_BROKER_URL", "")
backend = f"{_broker.rsplit('/', 1)[0]}/{RESULTS_DB}"
app = Celery("noop", broker=_broker, backend=backend)
app.conf.update(task_default_queue=QUEUE, broker_connection_retry_on_startup=True)


@app.task(name="bench.noop")
def noop(n: int) -> dict[str, bool]:
    """Nothing."""
    return {"done": True}


def publish(count: int) -> None:
    with app.producer_pool.acquire() as producer:
        for n in range(count):
            noop.apply_async((n,), producer=producer)


if __name__ == "__main__":
    publish(int(sys.argv[1]))
