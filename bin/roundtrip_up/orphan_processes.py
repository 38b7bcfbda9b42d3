"""The record of our running children in DATA/processes.json, and the end of those that a killed supervisor left behind.

Never ends anything by name: only what the record names by id *and* start time, or what runs inside our own data folder.
"""

import contextlib
import json
import signal
from pathlib import Path

from roundtrip_up.folders import write_private
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
    try:
        children = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    ended = []
    for name, child in sorted(children.items(), key=lambda item: item[1]["rank"]):
        if child["started"] and end(child["pid"], child["started"], child["stop_signal"], grace_seconds):
            ended.append(name)
    path.unlink(missing_ok=True)
    return ended


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
    if started is not None and _sits_in(pid, folder):
        return end(pid, started, signal.SIGINT, 30.0)
    if started is None or Path("/proc/self/cwd").exists():
        file.unlink(missing_ok=True)
    return False


def _sits_in(pid: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cwd").samefile(folder)
    return False
