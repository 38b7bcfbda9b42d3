"""Delivery workers as `bin/up` starts them, on the servers and the database of the test that runs."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from delivery.engine.wake import wake
from delivery.maintenance import sweeps

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bin"))

from roundtrip_up import process_table  # noqa: E402
from roundtrip_up.process import spawn  # noqa: E402

_numbers = itertools.count(1)  # a broker may not let two workers of one name in
GRACE_SECONDS = 25.0  # what the supervisor gives


class Workers:
    """Processes of their own, each the leader of its process group, with connections of its own.

    `root` and `python` are another clone's, where it is not this one that shall deliver.
    """

    def __init__(self, folder: Path, *, root: Path = ROOT, python: Path = Path(sys.executable), **env: str) -> None:
        self._root, self._python = root, python
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        url = (
            f"postgresql://{settings_of('USER')}:{settings_of('PASSWORD')}@{settings_of('HOST') or '127.0.0.1'}"
            f":{settings_of('PORT') or 5432}/{connection.settings_dict['NAME']}"
        )
        told = {
            "ROUNDTRIP_ENV": "test",
            "DATABASE_URL": url,
            "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
            "CHANNEL_LAYER_URL": settings.CHANNEL_LAYER_URL,
            "DELIVERY_ALLOWED_NETWORKS": "*@127.0.0.0/8",
            **env,
        }
        self._env = process_table.environment(told, os.environ)
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        number = next(_numbers)
        program = replace(process_table.delivery_worker(self._python, number, self._env), cwd=self._root)
        with (self._folder / f"worker-{number}.log").open("ab") as log:
            process = spawn(program, stdout=log)
        self.running.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
        """Signal one and wait; TimeoutExpired where it outlasts its grace. Returns its exit status."""
        self.running.remove(process)
        os.killpg(process.pid, number)
        try:
            return process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("worker-*.log")))


def settings_of(name: str) -> str:
    return str(connection.settings_dict[name] or "")


@contextmanager
def workers(folder: Path, **options: Any) -> Iterator[Workers]:
    """Whoever still runs at the end is ended."""
    made = Workers(folder, **options)
    try:
        yield made
    finally:
        for process in list(made.running):
            made.stop(process)


def beat() -> None:
    """What beat does every few seconds: wake the workers, rescue what a dead one left."""
    wake()
    sweeps.rescue()
