"""bin/up: from a bare clone to a running Roundtrip, and its supervision until somebody stops it."""

import argparse
import contextlib
import fcntl
import http.client
import os
import shlex
import sys
import time
from collections.abc import Iterator

from roundtrip_up import demo, ports, process_table, venv
from roundtrip_up.embedded.servers import READY_SECONDS, Servers, not_ready, plan
from roundtrip_up.folders import ROOT, Data, open_data, open_lock
from roundtrip_up.logs import Console, Logs
from roundtrip_up.orphan_processes import Record, end_leftovers
from roundtrip_up.process import Program
from roundtrip_up.refusal import Refusal
from roundtrip_up.secrets_store import secrets_of
from roundtrip_up.supervisor import Interrupted, Supervisor

WEB_READY_SECONDS = 120.0


def up(arguments: argparse.Namespace) -> int:
    """Start, supervise, stop. Returns the exit status: 0 after a wished stop."""
    began = time.monotonic()
    console = Console(sys.stdout.fileno())
    data = open_data(arguments.data)
    with only_one(data, arguments.port):
        logs = Logs(data.log, console)
        environment = venv.ensure(venv.RUNTIME, logs.plain)
        for name in end_leftovers(data.processes):
            logs.line("up", f"ended {name}, which an earlier bin/up left behind")
        ports.require_free(arguments.port)
        servers = plan(data, environment, os.environ, web_port=arguments.port)
        try:
            with Supervisor(logs, Record(data.processes)) as supervisor:
                _Start(arguments, data, environment, servers, supervisor, began).all()
                supervisor.run()
                logs.line("up", "stopping ...")
        except Interrupted:
            logs.line("up", "stopped before everything was up")
        else:
            logs.line("up", f"stopped. The data is kept in {data.folder}")
        console.drain()
    return 0


@contextlib.contextmanager
def only_one(data: Data, port: int) -> Iterator[None]:
    """One supervisor for one data folder; Refusal, with what runs there, for a second."""
    descriptor = open_lock(data)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = os.read(descriptor, 200).decode(errors="replace").strip() or "another bin/up"
            raise Refusal(
                f"Roundtrip already runs on {data.folder} ({who}). Stop that one first, or start a second one:"
                f" bin/up --port {port + 10} --data {shlex.quote(f'{data.folder}-2')}"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()}, http://{ports.HOST}:{port}\n".encode())
        yield
    finally:
        os.close(descriptor)


class _Start:
    """The steps of one start, in order."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        data: Data,
        found: venv.Venv,
        servers: Servers,
        supervisor: Supervisor,
        began: float,
    ) -> None:
        self.data, self.servers, self.supervisor, self.python, self.began = (
            data,
            servers,
            supervisor,
            found.python,
            began,
        )
        self.workers: int = arguments.workers
        sandbox = ports.remembered(data, ("sandbox",), avoid=arguments.port)["sandbox"] if arguments.sandbox else 0
        self.addresses = process_table.Addresses(arguments.port, sandbox)
        kept = secrets_of(data)
        self.product = process_table.settings(self.addresses, kept, servers.urls, os.environ)
        self.env = process_table.environment(self.product, os.environ)
        demo.write_files(data, self.addresses, self.product)

    def all(self) -> None:
        self.start_servers()
        if self.addresses.sandbox:
            self.supervisor.start(process_table.sandbox(self.python, self.addresses, self.env))
        self.prepare_database()
        for program in process_table.programs(self.python, self.addresses, self.workers, self.env):
            self.supervisor.start(program)
        self.wait_for_web()
        seconds = time.monotonic() - self.began
        self.supervisor.logs.plain(demo.banner(self.data, self.addresses, self.product, seconds))

    def start_servers(self) -> None:
        """Both at once, then wait for both."""
        for server in self.servers.embedded:
            server.prepare()
            self.supervisor.start(server.program())
        for server in self.servers.embedded:
            child = self.supervisor.children[server.name]

            def answers_or_died(child=child, server=server) -> bool:  # type: ignore[no-untyped-def]
                return child.process is None or server.is_ready(child.process.pid)

            if not self.supervisor.wait_for(answers_or_died, READY_SECONDS) or child.process is None:
                raise Refusal(not_ready(server.name, self.supervisor.logs.tail(server.name)))
            server.after_ready()

    def prepare_database(self) -> None:
        """Tables, then the demo operator, key and endpoints: one process, since each start of Django takes seconds."""
        script = ROOT / "bin" / "roundtrip_up" / "prepare.py"
        status = self.supervisor.call(Program("prepare", (str(self.python), str(script)), env=self.env, cwd=ROOT))
        if status:
            last = self.supervisor.logs.complaint("prepare")
            raise Refusal(f"The database could not be prepared: {last}. {self._remedy()}")

    def _remedy(self) -> str:
        if any(server.name == "postgres" for server in self.servers.embedded):
            return f"More in {self.data.log / 'prepare.log'}; a fresh start: --data NEWDIR."
        return "It is the one that DATABASE_URL names: see that it is reachable and that its user may create tables."

    def wait_for_web(self) -> None:
        child = self.supervisor.children["web"]
        answer = [0]

        def ready() -> bool:
            answer[0] = _ask(self.addresses.web)
            return answer[0] == 200 or child.failures >= 3

        ready_in_time = self.supervisor.wait_for(ready, WEB_READY_SECONDS, every=0.4)
        if child.failures >= 3:
            last = self.supervisor.logs.complaint("web")
            raise Refusal(f"The web process does not stay up: {last}. More in {self.data.log / 'web.log'}.")
        if not ready_in_time:
            says = f"answers {answer[0]}" if answer[0] else "does not answer"
            self.supervisor.logs.line(
                "up",
                f"{self.addresses.url}/readyz {says} after {WEB_READY_SECONDS:g} s; look there and in {self.data.log}",
            )


def _ask(port: int) -> int:
    """The status of /readyz; 0 while nobody answers."""
    connection = http.client.HTTPConnection(ports.HOST, port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
