"""Faults on purpose, each with what was in the air at that moment: kill -9, a flushed broker, a crashed PostgreSQL.

Processes are ended by their own handles, never by name. Where a server is not ours, it is hurt as far as our rights go:
its sessions of our database are cut, its queue is emptied.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from roundtrip_up.process import Program

from bench import Topology
from bench.harness import measure

REACH_SECONDS = 60.0
AT_WORK_SOCKETS = 16
IN_FLIGHT = "SELECT id, lease_token::text FROM delivery_delivery WHERE state = 'in_flight'"


@dataclass(slots=True)
class Fault:
    """What was done, when (seconds from the start), and how many deliveries were in flight right afterwards.

    Those that the one before it had already left behind, under the same lease, are not counted again.
    """

    kind: str
    at: float
    in_flight: int
    may_duplicate: bool


class Processes:
    """The product's processes of a bench; who has died by itself is started again, as bin/up would."""

    def __init__(self, servers: Topology, programs: list[Program]) -> None:
        self._servers = servers
        self._programs = {program.name: program for program in programs}
        self.restarts = 0

    def start(self) -> None:
        for program in self._programs.values():
            self._servers.start(program)

    def stop(self) -> None:
        for name in self._programs:
            if name in self._servers.started:
                self._servers.stop(name)

    def kill(self, name: str) -> None:
        self._servers.stop(name, signal.SIGKILL)

    def again(self, name: str) -> None:
        self._servers.start(self._programs[name])

    def oldest_at_work(self, names: list[str]) -> str | None:
        """Of these, the one that has run longest among those that are delivering; None where none is."""
        running = self._servers.started
        for name in [name for name in running if name in names]:  # in the order of their starts
            if measure.open_sockets(running[name].pid) >= AT_WORK_SOCKETS:
                return name
        return None

    def look_after(self) -> None:
        """Start again whoever ended without being told to."""
        for name, program in self._programs.items():
            process = self._servers.started.get(name)
            if process is not None and process.poll() is not None:
                self.restarts += 1
                self._servers.start(program)


class Faults:
    """Does them and keeps the list."""

    def __init__(self, servers: Topology, processes: Processes) -> None:
        self._servers, self._processes = servers, processes
        self._url = servers.env["DATABASE_URL"]
        self._began = time.monotonic()
        self._seen: set[tuple[int, str]] = set()
        self.done: list[Fault] = []

    def kill(self, worker: str) -> None:
        """kill -9, and start it again."""
        self._processes.kill(worker)
        self._note(f"kill -9 {worker}", True)
        self._processes.again(worker)

    def break_broker(self) -> None:
        """Everything flushed, then killed and started again."""
        if self._servers.is_external("valkey"):
            from config.celery import app

            with app.connection_for_write() as connection:
                connection.default_channel.queue_purge("delivery")
            self._note("delivery queue purged", False)
            return
        import redis

        with suppress(redis.RedisError):
            redis.Redis.from_url(self._servers.env["CELERY_BROKER_URL"]).flushall()
        self._servers.servers.stop("valkey", signal.SIGKILL)
        self._servers.servers.start("valkey")
        self._note("broker flushed, killed, restarted", False)

    def crash_postgres(self) -> None:
        """Immediate mode: every session cut, nothing written that was not committed, recovery at the start."""
        if self._servers.is_external("postgres"):
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            self._note("PostgreSQL: all sessions cut", True)
            return
        self._servers.servers.stop("postgres", signal.SIGQUIT)
        self._servers.servers.start("postgres")
        self._note("PostgreSQL restarted in immediate mode", True)

    def _note(self, kind: str, may_duplicate: bool) -> None:
        at = time.monotonic() - self._began
        leased = set(patiently(self._url, IN_FLIGHT))
        self.done.append(Fault(kind, at, len(leased - self._seen), may_duplicate))
        self._seen = leased


def patiently(url: str, sql: str) -> list[tuple]:
    """Rows from the database, however often it has to be asked."""
    deadline = time.monotonic() + REACH_SECONDS
    while True:
        try:
            with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
                return connection.execute(sql).fetchall()  # type: ignore[arg-type]
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
