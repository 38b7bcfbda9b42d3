"""The specification's worker, to the letter: 50 due rows by SKIP LOCKED, sent one by one with `requests.post` inside
the transaction, latency and health written one by one.

Its half-second sleep is left out, in its favour. Since the health rows are written in the batch's transaction, its
workers wait for each other's, and now and then for each other: a deadlock rolls the batch back, and it is sent again.
With `--health-apart` health has a connection of its own, which the specification does not say, but which is kinder.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import suppress

import psycopg
import requests

from bench.baselines.queue import SECRET, connect
from sandbox.signing import secret_bytes, sign

BATCH, TIMEOUT_SECONDS = 50, 15
KEY = secret_bytes(SECRET)

_DUE = """
SELECT id, endpoint_id, url, payload FROM bench_queue
WHERE status IN ('pending', 'failed') AND next_attempt_at <= now()
ORDER BY next_attempt_at LIMIT %s FOR UPDATE SKIP LOCKED
"""


def drain(connection: psycopg.Connection, beside: psycopg.Connection) -> None:
    """Batch after batch, until nothing is due."""
    while True:
        rows = []
        with suppress(psycopg.errors.DeadlockDetected), connection.transaction():
            rows = connection.execute(_DUE, [BATCH]).fetchall()
            for row in rows:
                deliver(connection, beside, *row)
        if not rows:
            return


def deliver(
    connection: psycopg.Connection, beside: psycopg.Connection, pk: int, endpoint: int, url: str, payload: dict
) -> None:
    breaker = connection.execute("SELECT state FROM bench_health WHERE endpoint_id = %s", [endpoint]).fetchone()
    if breaker and breaker[0] == "open":
        connection.execute("UPDATE bench_queue SET next_attempt_at = now() + interval '300 s' WHERE id = %s", [pk])
        return
    connection.execute(
        "UPDATE bench_queue SET status = 'in_flight', attempt_count = attempt_count + 1 WHERE id = %s", [pk]
    )
    status, ms = post(pk, url, json.dumps(payload).encode())
    connection.execute(
        "INSERT INTO bench_latency (endpoint_id, response_ms, status_code) VALUES (%s, %s, %s)", [endpoint, ms, status]
    )
    if status is None or not 200 <= status < 300:
        raise SystemExit(f"the receiver failed the specification's worker: {status}")
    connection.execute(
        "UPDATE bench_queue SET status = 'delivered', delivered_at = now(), last_status_code = %s, "
        "last_response_ms = %s WHERE id = %s",
        [status, ms, pk],
    )
    beside.execute(
        "UPDATE bench_health SET state = 'closed', consecutive_failures = 0, last_success_at = now() "
        "WHERE endpoint_id = %s",
        [endpoint],
    )


def post(pk: int, url: str, body: bytes) -> tuple[int | None, int]:
    """Status (None: no answer) and milliseconds."""
    name, moment = b"spec_%d" % pk, b"%d" % time.time()
    headers = {
        "content-type": "application/json",
        "webhook-id": name.decode(),
        "webhook-timestamp": moment.decode(),
        "webhook-signature": sign(KEY, name, moment, body).decode(),
    }
    began = time.monotonic()
    try:
        status: int | None = requests.post(url, data=body, headers=headers, timeout=TIMEOUT_SECONDS).status_code
    except requests.RequestException:
        status = None
    return status, int((time.monotonic() - began) * 1000)


if __name__ == "__main__":
    with connect() as own, connect() as other:
        drain(own, other if "--health-apart" in sys.argv else own)
    signal.pause()  # the bench reads what this process has cost before it ends it
