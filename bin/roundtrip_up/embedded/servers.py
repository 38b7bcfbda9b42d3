"""The embedded servers of one data folder: which are needed, their settings for the product, and a run of them without
supervision for tests and benchmarks.

A `DATABASE_URL` or broker URL in the environment always wins: then that server is not started.
"""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roundtrip_up.embedded.postgres import DURABLE, Postgres
from roundtrip_up.embedded.unprivileged import place
from roundtrip_up.embedded.valkey import Valkey
from roundtrip_up.folders import Data
from roundtrip_up.logs import open_log
from roundtrip_up.orphan_processes import Record, end_leftovers
from roundtrip_up.ports import remembered
from roundtrip_up.process import spawn
from roundtrip_up.refusal import Refusal
from roundtrip_up.secrets_store import secrets_of
from roundtrip_up.venv import Venv

KILLED_SECONDS = 10.0
READY_SECONDS = 60.0  # recovery after a crash may take a while


@dataclass(frozen=True)
class Servers:
    """What is needed of PostgreSQL and Valkey, and the URLs the product gets, whether ours or the environment's."""

    embedded: tuple[Postgres | Valkey, ...]
    urls: dict[str, str]


def plan(
    data: Data,
    venv: Venv,
    environ: Mapping[str, str],
    *,
    web_port: int = 0,
    settings: Mapping[str, str] = DURABLE,
    rights: str = "NOSUPERUSER NOCREATEDB",
) -> Servers:
    """Choose servers, ports and URLs; starts nothing. `rights` of the database role: tests make databases, benchmarks
    also switch triggers off."""
    kept = secrets_of(data)
    urls = {
        name: environ[name] for name in ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL") if environ.get(name)
    }
    if len(urls) == 3:
        return Servers((), urls)
    where = place(venv, data, kept["instance"])
    port = remembered(data, ("postgres", "valkey"), avoid=web_port)
    embedded: list[Postgres | Valkey] = []
    if "DATABASE_URL" not in urls:
        postgres = Postgres(
            where,
            port["postgres"],
            (kept["database_superuser_password"], kept["database_password"]),
            settings,
            rights,
        )
        urls["DATABASE_URL"] = postgres.url
        embedded.append(postgres)
    if "CELERY_BROKER_URL" not in urls or "CHANNEL_LAYER_URL" not in urls:
        valkey = Valkey(where, port["valkey"], kept["broker_password"])
        urls.setdefault("CELERY_BROKER_URL", valkey.url(0))
        urls.setdefault("CHANNEL_LAYER_URL", valkey.url(1))
        embedded.append(valkey)
    return Servers(tuple(embedded), urls)


class Running:
    """Embedded servers run by hand: for tests and benchmarks, which may also kill and start one of them."""

    def __init__(self, data: Data, servers: Servers) -> None:
        self.data, self.servers = data, servers
        self.urls = servers.urls
        self._record = Record(data.processes)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start one server and wait until it answers; Refusal with the end of its log when it does not."""
        server = self._server(name)
        server.prepare()
        deadline = time.monotonic() + READY_SECONDS
        # After kill -9 the old sessions hold the shared memory for a moment, and a new postmaster gives up at once.
        while not self._came_up(server, deadline):
            if time.monotonic() > deadline - READY_SECONDS + KILLED_SECONDS:
                raise Refusal(not_ready(name, (self.data.log / f"{name}.log").read_text(errors="replace").splitlines()))
            time.sleep(0.2)
        server.after_ready()

    def _came_up(self, server: Postgres | Valkey, deadline: float) -> bool:
        with open_log(self.data.log / f"{server.name}.log") as log:
            process = spawn(server.program(), stdout=log)
        self._processes[server.name] = process
        self._record.started(server.program(), process.pid)
        while not server.is_ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def stop(self, name: str, number: int | None = None) -> None:
        """Stop one server as usual, or with the given signal (SIGKILL, or SIGQUIT for PostgreSQL's immediate mode)."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        program = self._server(name).program()
        process.send_signal(program.stop_signal if number is None else number)
        try:
            process.wait(program.grace_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._record.ended(name)

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def stop_all(self) -> None:
        for server in reversed(self.servers.embedded):
            self.stop(server.name)

    def _server(self, name: str) -> Postgres | Valkey:
        return next(server for server in self.servers.embedded if server.name == name)


@contextlib.contextmanager
def running(data: Data, servers: Servers) -> Iterator[Running]:
    """Start the embedded servers, and stop them at the end, whatever happens."""
    end_leftovers(data.processes)
    run = Running(data, servers)
    try:
        for server in servers.embedded:
            run.start(server.name)
        yield run
    finally:
        run.stop_all()


def not_ready(name: str, log: list[str]) -> str:
    """One line about a server that did not come up."""
    if any("No space left" in line for line in log[-20:]):
        return f"The disk is full, so {name} cannot start. Free some space, or choose another folder with --data DIR."
    last = (
        next((line.strip() for line in reversed(log) if "FATAL" in line or "ERROR" in line), "")
        or (log or ["no output"])[-1]
    )
    return f"{name} did not start: {last}. More stands in its log file; a fresh start: --data NEWDIR."
