"""CPU time, memory and machine, read from /proc. Nothing here starts, stops or waits for anything but its own clock."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far, with all their threads."""
    return sum(sum(_times(pid)[:2]) for pid in pids)


def tree_cpu_seconds(root: int) -> float:
    """Of a process, its living children, and the children it has seen end: all of a PostgreSQL server."""
    return sum(_times(root)) + cpu_seconds(children(root))


def children(root: int) -> list[int]:
    """Every process below this one."""
    parents = dict(_all())
    found, looked_at = [], {root}
    while looked_at:
        looked_at = {pid for pid, parent in parents.items() if parent in looked_at}
        found += sorted(looked_at)
    return found


def peak_rss_mb(pid: int) -> float:
    """The most memory the process has ever held (VmHWM)."""
    for line in _read(pid, "status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def open_sockets(pid: int) -> int:
    """How many sockets a process holds: an idle worker a handful, one that delivers as many as it talks to."""
    return sum(_is_socket(entry) for entry in _listed(Path(f"/proc/{pid}/fd")))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_socket(entry: Path) -> bool:
    try:
        return str(entry.readlink()).startswith("socket:")
    except OSError:  # closed meanwhile
        return False


def machine() -> dict[str, object]:
    """What it ran on, and how busy others kept it: without that, figures from a shared machine say little."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    total = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
    return {"cores": os.cpu_count(), "cpu": model, "memory_mb": total, "kernel": os.uname().release}


@dataclass(slots=True)
class Idle:
    """How much of the machine nobody used, and how much the host took away, since this was made."""

    before: tuple[int, int, int]

    @classmethod
    def since_now(cls) -> Idle:
        return cls(_machine_ticks())

    def shares(self) -> tuple[float, float]:
        """(idle, stolen) as shares of all cores' time."""
        now = _machine_ticks()
        total = max(1, now[0] - self.before[0])
        return (now[1] - self.before[1]) / total, (now[2] - self.before[2]) / total


def _machine_ticks() -> tuple[int, int, int]:
    values = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(values), values[3] + values[4], values[7]


def _times(pid: int) -> tuple[float, float, float, float]:
    """utime, stime, cutime, cstime in seconds; nothing for a process that is gone."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    if len(fields) < 15:
        return 0.0, 0.0, 0.0, 0.0
    own, system, ended, ended_system = (int(field) / TICKS for field in fields[11:15])
    return own, system, ended, ended_system


def _all() -> Iterable[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            fields = _read(int(folder.name), "stat").rpartition(")")[2].split()
            if len(fields) > 2:
                yield int(folder.name), int(fields[1])


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""
