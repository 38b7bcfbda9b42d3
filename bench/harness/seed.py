"""Millions of rows that only stand there, made by plain SQL: what a bench measures is never made here.

Foreign keys are not checked row by row while scenery is laid (`session_replication_role`), everything else is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connection

from bench.harness.rows import EVENT_TYPE, new_event
from delivery.events import payload_bytes

_EVENTS = """
INSERT INTO delivery_event (uid, type, subscriber, payload, payload_sha256, correlation_id, caller, delivery_count,
                            occurred_at, created_at)
SELECT %s || '_' || n, %s, %s, %s, %s, 'c0ffee00c0ffee00', '', 1, clock_timestamp(), clock_timestamp()
FROM generate_series(1, %s) n RETURNING id
"""
_DUE = """
INSERT INTO delivery_delivery (event_id, endpoint_id, state, attempt_count, throttle_count, rescue_count,
    redrive_count, next_attempt_at, ordering_key, last_outcome, last_error, fingerprint, is_replay, created_at)
SELECT e, %s, 'pending', 0, 0, 0, 0, clock_timestamp(), '', '', '', '', false, clock_timestamp()
FROM unnest(%s::bigint[]) e
"""
_WAITING = """
INSERT INTO delivery_delivery (event_id, endpoint_id, state, attempt_count, throttle_count, rescue_count,
    redrive_count, next_attempt_at, ordering_key, last_outcome, last_status_code, last_error, fingerprint, is_replay,
    created_at)
SELECT %s, n, 'failed', 1, 0, 0, 0, clock_timestamp() + interval '1 hour', '', 'server_error', 500, 'HTTP 500', '',
    false, clock_timestamp()
FROM unnest(%s::bigint[]) n
"""
_FINISHED = """
INSERT INTO delivery_delivery (event_id, endpoint_id, state, attempt_count, throttle_count, rescue_count,
    redrive_count, next_attempt_at, ordering_key, last_outcome, last_status_code, last_response_ms, last_error,
    fingerprint, is_replay, created_at, delivered_at, finished_at)
SELECT e, p, 'delivered', 1, 0, 0, 0, t.at, '', 'delivered', 200, 12, '', '', false, t.at, t.at, t.at
FROM unnest(%s::bigint[]) e CROSS JOIN unnest(%s::bigint[]) p
CROSS JOIN LATERAL (SELECT clock_timestamp() - random() * interval '20 hours' AS at) t
RETURNING id, endpoint_id, finished_at
"""
_ATTEMPTS = f"""
WITH done AS ({_FINISHED})
INSERT INTO delivery_attempt (delivery_id, endpoint_id, number, outcome, status_code, error, started_at,
    queue_wait_ms, first_byte_ms, total_ms, address, signed_at, key_ids, is_probe, worker)
SELECT id, endpoint_id, 1, 'delivered', 200, '', finished_at, 3, 11.5, 12.0, '127.0.0.1', 1, 'abcd', false, 'bench'
FROM done
"""
_ENDPOINTS = """
INSERT INTO delivery_endpoint (name, subscriber, event_types, url, host, request_form, method, body_template,
    body_content_type, missing_field, missing_default, ordering_key, headers, retry_profile, retry_delays,
    max_attempts, timeout_ms, max_concurrency, transient_codes, breaker_threshold, breaker_cooldown_seconds,
    signature_scheme, secret, rotation_token, public_key, ca_certificate, client_certificate, hold_reason, version,
    created_at, updated_at)
SELECT 'scenery ' || n, 'scenery-' || n, event_types, url, host, request_form, method, body_template,
    body_content_type, missing_field, missing_default, ordering_key, headers, retry_profile, retry_delays,
    max_attempts, timeout_ms, max_concurrency, transient_codes, breaker_threshold, breaker_cooldown_seconds,
    signature_scheme, secret, rotation_token, public_key, ca_certificate, client_certificate, hold_reason, version,
    created_at, updated_at
FROM delivery_endpoint, generate_series(1, %s) n WHERE id = %s RETURNING id
"""


def events(subscriber: str, count: int, mark: str) -> list[int]:
    """Ids of so many events of one subscriber, all with one payload."""
    sample = new_event(subscriber, 0)
    payload = payload_bytes(EVENT_TYPE, sample.occurred_at, sample.data)
    with connection.cursor() as cursor:
        cursor.execute(_EVENTS, [mark, EVENT_TYPE, subscriber, payload, "0" * 64, count])
        return [row[0] for row in cursor.fetchall()]


def flood(endpoint: int, subscriber: str, count: int) -> None:
    """So many deliveries of one endpoint, each of an event of its own, all due now."""
    with unchecked() as cursor:
        cursor.execute(_DUE, [endpoint, events(subscriber, count, "flood")])


def copies(of: int, count: int) -> list[int]:
    """So many endpoints like this one, with health rows; returns their ids."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDPOINTS, [count, of])
        ids = [row[0] for row in cursor.fetchall()]
        cursor.execute(
            "INSERT INTO delivery_endpointhealth (endpoint_id, breaker_state, consecutive_failures, cooldown_seconds, "
            "refusal_kind, refusal_count, sample_count, phases, is_slow) "
            "SELECT n, 'closed', 0, 300, '', 0, 0, '{}', false FROM unnest(%s::bigint[]) n",
            [ids],
        )
    return ids


def waiting(endpoints: Sequence[int], subscriber: str) -> None:
    """One delivery for each endpoint that waits to be retried in an hour: the claim has to step over all of them."""
    with unchecked() as cursor:
        cursor.execute(_WAITING, [events(subscriber, 1, "waiting")[0], list(endpoints)])


def finished(endpoints: Sequence[int], subscriber: str, count: int, mark: str) -> None:
    """So many delivered deliveries over these endpoints, each with its attempt."""
    per_round = 2_000
    ids = events(subscriber, count // len(endpoints), mark)
    for start in range(0, len(ids), per_round):
        with unchecked() as cursor:
            cursor.execute(_ATTEMPTS, [ids[start : start + per_round], list(endpoints)])


@contextmanager
def unchecked() -> Iterator:
    """A cursor whose inserts fire no foreign-key triggers."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            yield cursor
        finally:
            cursor.execute("SET session_replication_role = DEFAULT")
