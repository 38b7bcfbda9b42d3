"""The specification's three tables, for the contestants that keep them: what is due, latency, health."""

from __future__ import annotations

import json
import os

import psycopg

SCHEMA = """
DROP TABLE IF EXISTS bench_queue, bench_latency, bench_health;
CREATE TABLE bench_queue (
    id bigserial PRIMARY KEY, endpoint_id int NOT NULL, url text NOT NULL, payload jsonb NOT NULL,
    status text NOT NULL DEFAULT 'pending', attempt_count int NOT NULL DEFAULT 0, max_attempts int NOT NULL DEFAULT 5,
    created_at timestamptz NOT NULL DEFAULT now(), next_attempt_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz, last_error text, last_status_code int, last_response_ms int
);
CREATE INDEX bench_queue_due ON bench_queue (next_attempt_at) WHERE status IN ('pending', 'failed');
CREATE TABLE bench_latency (
    id bigserial PRIMARY KEY, endpoint_id int NOT NULL, response_ms int NOT NULL, status_code int,
    measured_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX bench_latency_endpoint ON bench_latency (endpoint_id, measured_at);
CREATE TABLE bench_health (
    endpoint_id int PRIMARY KEY, state text NOT NULL DEFAULT 'closed', consecutive_failures int NOT NULL DEFAULT 0,
    failure_threshold int NOT NULL DEFAULT 10, last_failure_at timestamptz, last_success_at timestamptz,
    opened_at timestamptz, cooldown_seconds int NOT NULL DEFAULT 300
);
"""
SECRET = "whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh"


def connect() -> psycopg.Connection:
    """One connection that commits by itself, as a plain worker would keep it."""
    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)


def fill(url: str, endpoints: int, count: int, payload_bytes: int) -> dict[str, str]:
    """Fresh tables with so many due deliveries for `url/<endpoint>`; returns {path: secret} for the receiver."""
    payload = json.dumps({"note": "x" * (payload_bytes - len('{"note": ""}'))})
    with connect() as connection:
        connection.execute(SCHEMA)
        connection.execute(
            "INSERT INTO bench_health (endpoint_id) SELECT n FROM generate_series(0, %s) n", [endpoints - 1]
        )
        connection.execute(
            "INSERT INTO bench_queue (endpoint_id, url, payload) "
            "SELECT n %% %s, %s || '/' || n %% %s, %s::jsonb FROM generate_series(1, %s) n",
            [endpoints, url, endpoints, payload, count],
        )
        connection.execute("VACUUM ANALYZE bench_queue, bench_health")
        connection.execute("CHECKPOINT")
    path = url.split("/", 3)[3]
    return {f"/{path}/{n}": SECRET for n in range(endpoints)}


def left() -> int:
    with connect() as connection:
        row = connection.execute("SELECT count(*) FROM bench_queue WHERE status <> 'delivered'").fetchone()
        return row[0] if row else 0


def drop() -> None:
    with connect() as connection:
        connection.execute("DROP TABLE IF EXISTS bench_queue, bench_latency, bench_health")
