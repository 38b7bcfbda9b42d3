"""Where things lie: the clone, its venv, and the data folder of one instance. Makes folders; never deletes any."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from roundtrip_up.refusal import Refusal, about_folder

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDED_BYTES = 200 * 1024 * 1024  # a fresh PostgreSQL with its first WAL files takes about 60 MB


@dataclass(frozen=True)
class Data:
    """The data folder of one instance (`var` unless `--data` says otherwise)."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def ports(self) -> Path:
        return self.folder / "ports.json"

    @property
    def processes(self) -> Path:
        return self.folder / "processes.json"

    @property
    def demo(self) -> Path:
        return self.folder / "demo.json"


def open_data(folder: Path) -> Data:
    """Make the data folder if it is new, and see that it can be written to and has room; Refusal otherwise."""
    remedy = "choose another folder with --data DIR"
    data = Data(folder.absolute())
    try:
        if not data.folder.exists():
            data.folder.mkdir(parents=True)
            # As root the servers' user has to walk through, without being able to look around.
            data.folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        data.log.mkdir(mode=0o700, exist_ok=True)
        probe = data.folder / ".writable"
        probe.write_bytes(b"\0" * 4096)
        probe.unlink()
    except OSError as error:
        raise about_folder(error, data.folder, remedy) from error
    free = shutil.disk_usage(data.folder).free
    if free < NEEDED_BYTES:
        raise Refusal(
            f"Only {free // 2**20} MB are free on the disk of {data.folder}, and {NEEDED_BYTES // 2**20} MB are needed."
            f" Free some space, or {remedy}."
        )
    return data


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read (0600), whole or not at all."""
    waiting = path.with_name(path.name + ".new")
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    waiting.replace(path)
