"""What children say: one readable stream on the console with the process name, and a file for each in DATA/log/.

Nothing here may stop the product: a console that nobody reads any more (or that is held by Ctrl-S) loses lines, a full
disk loses the files' lines, and neither ever blocks or raises.
"""

import contextlib
import os
import re
import select
import stat
import time
from collections import deque
from pathlib import Path
from typing import IO

from roundtrip_up.ownership import open_own

FILE_BYTES = 10 * 1024 * 1024
OLD_FILES = 3
WAITING_LINES = 5_000
NAME_WIDTH = 18
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Configured|configured)\b.*: ?\S")
COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)


def as_bytes(text: str) -> bytes:
    """A path in it may be no UTF-8: then its own bytes."""
    return text.encode(errors="surrogateescape")


def open_log(path: Path) -> IO[bytes]:
    """A log file of ours, to be written to at its end."""
    return os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab", buffering=0)


class RotatingFile:
    """A log file that becomes name.log.1, .2, .3 as it grows."""

    def __init__(self, path: Path, limit: int = FILE_BYTES, keep: int = OLD_FILES) -> None:
        self.path, self.limit, self.keep = path, limit, keep
        self._file: IO[bytes] | None = None
        self._size = 0

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = open_log(self.path)
                self._size = self._file.tell()
            self._file.write(line)
            self._size += len(line)
            if self._size >= self.limit:
                self._rotate()

    def _rotate(self) -> None:
        self.close()
        for number in range(self.keep - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            if older.exists():
                older.replace(self.path.with_name(f"{self.path.name}.{number + 1}"))
        self.path.replace(self.path.with_name(f"{self.path.name}.1"))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Console:
    """Lines to a file descriptor, which is written to only while it takes them at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.colour = os.isatty(descriptor) and "NO_COLOR" not in os.environ
        self._waiting: deque[bytes] = deque()
        self._dropped = 0
        self._gone = False
        self._always_takes = stat.S_ISREG(os.fstat(descriptor).st_mode)

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting) and not self._gone

    def write(self, line: bytes) -> None:
        if self._gone:
            return
        if len(self._waiting) >= WAITING_LINES:
            self._dropped += 1
            return
        self._waiting.append(line)
        self.flush()

    def flush(self) -> None:
        """Write as much as is taken without waiting. At most 4 KB at a time: that much a writable pipe always takes."""
        while self._waiting and not self._gone and self._takes():
            if self._dropped and len(self._waiting) < WAITING_LINES // 2:
                self._waiting.appendleft(b"... %d lines left out here; all are in the log files ...\n" % self._dropped)
                self._dropped = 0
            line = self._waiting.popleft()
            try:
                written = os.write(self.descriptor, line[:4096])
            except OSError:  # the reader left, as in `bin/up | head`
                self._gone = True
                return
            if written < len(line):
                self._waiting.appendleft(line[written:])

    def _takes(self) -> bool:
        return self._always_takes or bool(select.select([], [self.descriptor], [], 0)[1])

    def drain(self, seconds: float = 1.0) -> None:
        """Before the end: give the reader a moment for what is left."""
        deadline = time.monotonic() + seconds
        while self.is_waiting and time.monotonic() < deadline:
            select.select([], [self.descriptor], [], 0.1)
            self.flush()


class Logs:
    """The console and the files together."""

    def __init__(self, folder: Path | None, console: Console) -> None:
        self.folder, self.console = folder, console
        self._files: dict[str, RotatingFile] = {}
        self._partial: dict[str, bytes] = {}
        self._tails: dict[str, deque[str]] = {}

    def feed(self, name: str, data: bytes) -> None:
        """Bytes of a child's output, in pieces as they come; whole lines go on."""
        *lines, rest = (self._partial.pop(name, b"") + data).split(b"\n")
        for line in lines:
            self.line(name, line.decode(errors="replace"))
        if len(rest) > 65_536:
            self.line(name, rest.decode(errors="replace"))
        elif rest:
            self._partial[name] = rest

    def close(self, name: str) -> None:
        """The child ended: its last line may lack the newline."""
        if rest := self._partial.pop(name, b""):
            self.line(name, rest.decode(errors="replace"))

    def line(self, name: str, text: str) -> None:
        text = text.rstrip("\r")
        self._tails.setdefault(name, deque(maxlen=20)).append(text)
        if self.folder is not None:
            file = self._files.setdefault(name, RotatingFile(self.folder / f"{name}.log"))
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) if name == "up" else ""
            file.write(as_bytes(f"{stamp}{text}\n"))
        if text:
            self.console.write(as_bytes(f"{self._label(name)} {text}\n"))

    def plain(self, text: str) -> None:
        """Our own words to the person at the console, without a label."""
        for line in text.splitlines():
            self.console.write(as_bytes(f"{line}\n"))

    def tail(self, name: str) -> list[str]:
        """The last lines of a process."""
        return list(self._tails.get(name, ()))

    def complaint(self, name: str) -> str:
        """The line that says what went wrong: the last one that looks like an exception, or just the last one."""
        lines = [line for line in reversed(self.tail(name)) if line.strip()]
        return next((line for line in lines if EXCEPTION.match(line)), lines[0] if lines else "no output").rstrip(". ")

    def _label(self, name: str) -> str:
        label = f"{name:<{NAME_WIDTH}}|"
        if not self.console.colour:
            return label
        colour = 1 if name == "up" else COLOURS[sum(name.encode()) % len(COLOURS)]
        return f"\x1b[{colour}m{label}\x1b[0m"
