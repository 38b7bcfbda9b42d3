"""The record of our running children in DATA/processes.json, and the end of those that a killed supervisor left behind.

Never ends anything by name: only what the record names by id *and* start time, or a postmaster inside our own data
folder; and only what runs as our user or the servers', and works in the clone or the data folder.
"""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from roundtrip_up.folders import ROOT, write_private
from roundtrip_up.ownership import HAS_PROC, read_own, sits_in, user_of
from roundtrip_up.process import Program, end, start_time


class Record:
    """Children as they are now; rewritten whenever one starts or ends, removed after a clean stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._children: dict[str, dict] = {}

    def started(self, program: Program, pid: int) -> None:
        self._children[program.name] = {
            "pid": pid,
            "started": start_time(pid),
            "stop_signal": int(program.stop_signal),
            "rank": program.rank,
        }
        self._write()

    def ended(self, name: str) -> None:
        if self._children.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # a full disk must not take the running system down
            if self._children:
                write_private(self.path, json.dumps(self._children, indent=2) + "\n")
            else:
                self.path.unlink(missing_ok=True)


def end_leftovers(path: Path, grace_seconds: float = 10.0) -> list[str]:
    """End what the record still names from a supervisor that was killed; returns the names in that order."""
    is_ours = _judge(path.parent)
    ended = []
    for _rank, name, pid, started, stop_signal in _recorded(path):
        if end(pid, started, is_ours, stop_signal, grace_seconds):
            ended.append(name)
    path.unlink(missing_ok=True)
    return ended


def _recorded(path: Path) -> list[tuple[int, str, int, str, int]]:
    """(rank, name, id, start time, stop signal) of each child, in the order of the stop. What is no record is none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        children = json.loads(read_own(path))
        return sorted(
            (int(child["rank"]), name, int(child["pid"]), child["started"], int(child["stop_signal"]))
            for name, child in children.items()
            if isinstance(child["started"], str) and child["started"]
        )
    return []


def _judge(folder: Path) -> Callable[[int], bool]:
    """Whether a process is one of this data folder's: by its user and by where it works."""
    servers = (folder / "postgres", folder / "valkey")
    users = {os.geteuid()}
    for server in servers:
        with contextlib.suppress(OSError):
            users.add(server.stat().st_uid)
    return lambda pid: user_of(pid) in users and sits_in(pid, (ROOT, folder, *servers))


def end_or_forget_postmaster(folder: Path) -> bool:
    """Deal with a `postmaster.pid` that nobody recorded; returns whether a server was ended.

    PostgreSQL refuses to start while that id is alive, although it may belong to somebody else after a crash or reboot.
    A postmaster's working directory is its data folder, so a process that sits elsewhere is none: the file is stale.
    """
    file = folder / "postmaster.pid"
    try:
        pid = int(file.read_text(errors="replace").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return False
    started = start_time(pid)
    if started is not None and end(pid, started, lambda pid: _is_postmaster_of(pid, folder), signal.SIGINT, 30.0):
        return True
    if started is None or HAS_PROC:
        file.unlink(missing_ok=True)
    return False


def _is_postmaster_of(pid: int, folder: Path) -> bool:
    """A shell of root's that happens to stand in the folder is none, whatever the file says."""
    with contextlib.suppress(OSError):
        runs_there = (
            Path(f"/proc/{pid}/cwd").samefile(folder) and Path(f"/proc/{pid}/exe").readlink().name == "postgres"
        )
        return runs_there and user_of(pid) == folder.stat().st_uid
    return False
