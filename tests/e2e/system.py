"""A running system for the end-to-end tests: started by `bin/up` itself, driven only through its public doors."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kombu
import psycopg
import redis
import requests

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 240  # the first start installs packages
FETCH_LEASE_SECONDS = 90  # docs/limits.md
EXTERNAL = os.environ.get("ROUNDTRIP_TEST_TOPOLOGY") == "external"  # bin/test --topology external


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(look: Callable[[], Any], seconds: float, what: str, every: float = 0.25) -> Any:
    """Look until there is something; AssertionError with `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(every)


class External:
    """A database of our own on the server that DATABASE_URL names, and the other servers as they are."""

    def __init__(self, name: str) -> None:
        self._server = os.environ["DATABASE_URL"]
        self._name = name
        self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}")

    def urls(self) -> dict[str, str]:
        ours = urlsplit(self._server)._replace(path=f"/{self._name}").geturl()
        return {"DATABASE_URL": ours, **{name: os.environ[name] for name in ("CELERY_BROKER_URL", "CHANNEL_LAYER_URL")}}

    def close(self) -> None:
        self._run(f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as server:
            for statement in statements:
                server.execute(statement)


class System:
    """`bin/up` on a free port with a data folder of its own; `external`: on the servers that the environment names.

    `root` is the clone to start, where it is not this one; `told` is what it is told beside its defaults.
    """

    def __init__(
        self, data: Path, *, external: bool = False, root: Path = ROOT, told: dict[str, str] | None = None
    ) -> None:
        self.data, self.root, self.told = data, root, told or {}
        self.servers = External(f"roundtrip_system_{os.getpid()}") if external else None
        self.log = data.parent / "up.log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._said_before = 0
        self.session = requests.Session()
        self.session.trust_env = False

    def start(self) -> None:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environment |= self.servers.urls() if self.servers else {}
        environment |= self.told
        command = [str(self.root / "bin" / "up"), "--port", str(self.port), "--data", str(self.data)]
        self._said_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=self.root, env=environment, stdout=out, stderr=out)
        wait_for(self._is_ready, START_SECONDS, f"/readyz; see {self.log}", every=0.5)
        self.demo = json.loads((self.data / "demo.json").read_text())
        self.url = self.demo["url"].rstrip("/")
        self.session.headers["Authorization"] = f"Bearer {self.demo['api_key']}"

    def _is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"bin/up ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
        if b"Roundtrip is up" not in self.log.read_bytes()[self._said_before :]:
            return False  # after a kill -9, what answers may be a process of the run before, on its way out
        try:
            return self.session.get(f"http://127.0.0.1:{self.port}/readyz", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        if self.servers:
            self.servers.close()
        return status

    def forget_messages(self) -> None:
        """The broker loses all that waits in it."""
        if self.servers is None:
            redis.Redis.from_url(self.demo["broker_url"]).flushall()
            return
        with kombu.Connection(self.demo["broker_url"]) as broker:
            for queue in ("delivery", "tasks", "default"):
                broker.default_channel.queue_purge(queue)

    def crash_database(self) -> None:
        """Immediate mode, and up again; of a server that is not ours, only every session of this system is cut."""
        if self.servers is None:
            (before,) = self.pids("postgres")
            os.kill(before, signal.SIGQUIT)
            wait_for(lambda: self.pids("postgres") not in ([], [before]), 40, "postgres to come back", every=0.1)
            return
        with psycopg.connect(self.demo["database_url"], autocommit=True) as database:
            database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def end_leases(self, seconds_ago: float) -> int:
        """The leases of what was being fetched then run out now, instead of in a minute and a half; how many."""
        with psycopg.connect(self.demo["database_url"], autocommit=True) as database:
            return database.execute(
                "UPDATE tasks_task SET leased_until = now() WHERE state = 'fetching' "
                "AND leased_until < now() + make_interval(secs => %s)",
                [FETCH_LEASE_SECONDS - seconds_ago],
            ).rowcount

    # The API

    def api(self, method: str, path: str, expect: int | None = None, **more: Any) -> Any:
        answer = self.session.request(method, f"{self.url}/api/v1{path}", timeout=30, **more)
        if expect is not None:
            assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    def get(self, path: str, **query: Any) -> Any:
        return self.api("GET", path, 200, params=query)

    def post(self, path: str, body: Any = None, expect: int | None = None, **more: Any) -> Any:
        answer = self.api("POST", path, expect, json=body if body is not None else {}, **more)
        return answer

    def every(self, path: str, **query: Any) -> list[dict]:
        """All rows of a list, page after page."""
        page = self.get(path, limit=200, **query)
        rows = page["results"]
        while page["next"]:
            answer = self.session.get(page["next"], timeout=30)
            assert answer.status_code == 200, answer.text[:300]
            page = answer.json()
            rows += page["results"]
        return rows

    def manage(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "ROUNDTRIP_DATA": str(self.data)},
            capture_output=True,
            text=True,
            timeout=180,
        )
        if check:
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done

    # Batches

    def submit(self, kind: str, inputs: list[dict], **more: Any) -> dict:
        body = {"kind": kind, "tasks": [{"input": item} for item in inputs], **more}
        return self.post("/batches/", body, 202)

    def finished(self, batch: dict, seconds: float = 90) -> dict:
        def look() -> dict | None:
            found = self.get(f"/batches/{batch['id']}/")
            return found if found["state"] == "completed" else None

        return wait_for(look, seconds, f"batch {batch['id']} to complete")

    # The sandbox

    def faults(self, **rates: float) -> None:
        answer = self.session.delete(f"{self.demo['provider_url']}/_faults", timeout=5)
        if rates:
            answer = self.session.post(f"{self.demo['provider_url']}/_faults", json=rates, timeout=5)
        assert answer.status_code < 300, answer.text

    def journal(self, **query: Any) -> list[dict]:
        answer = self.session.get(
            f"{self.demo['receiver_url']}/_journal", params={"limit": 20_000, **query}, timeout=20
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["entries"]

    # Processes

    def pids(self, name: str) -> list[int]:
        """Ids of this system's own processes whose role name starts so (`worker-delivery`, `web`, …)."""
        rows = json.loads((self.data / "processes.json").read_text())
        return [row["pid"] for role, row in rows.items() if role.startswith(name)]

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted((self.data / "log").glob("*.log*")))


def searches(limit: int | None = None) -> list[dict]:
    """The inputs in examples/searches.csv; empty cells are left out."""
    with (ROOT / "examples" / "searches.csv").open(encoding="utf-8", newline="") as file:
        rows = [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]
    for row in rows:
        if "limit" in row:
            row["limit"] = int(row["limit"])
    return rows[:limit]
