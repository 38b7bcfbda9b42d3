"""Where things lie: the clone, its venv, and the data folder of one instance. Makes folders; never deletes any."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from roundtrip_up.ownership import make_own_folder, open_own, require_own_folder, require_safe_way
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
    """Make the data folder if it is new; see that it is ours alone, can be written to and has room. Or a Refusal."""
    remedy = "choose another folder with --data DIR"
    data = Data(folder.absolute())
    try:
        if not data.folder.exists():
            require_safe_way(data.folder, remedy)
            data.folder.mkdir(parents=True)
            # As root the servers' user has to walk through, without being able to look around.
            data.folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        require_own_folder(data.folder, remedy)
        make_own_folder(data.log)
        _try_to_write(data.folder / ".writable")
    except OSError as error:
        raise about_folder(error, data.folder, remedy) from error
    free = shutil.disk_usage(data.folder).free
    if free < NEEDED_BYTES:
        raise Refusal(
            f"Only {free // 2**20} MB are free on the disk of {data.folder}, and {NEEDED_BYTES // 2**20} MB are needed."
            f" Free some space, or {remedy}."
        )
    return data


def _try_to_write(probe: Path) -> None:
    probe.unlink(missing_ok=True)
    descriptor = open_own(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.write(descriptor, b"\0" * 4096)
    finally:
        os.close(descriptor)
        probe.unlink()


def open_lock(data: Data) -> int:
    """A descriptor of the folder's lock file, for `flock`."""
    try:
        return open_own(data.lock, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise about_folder(error, data.lock, "choose another folder with --data DIR") from error


def write_private(path: Path, text: str, owner: tuple[int, int] | None = None, mode: int = 0o600) -> None:
    """Write a file that only its owner (by default us) can read, whole or not at all."""
    waiting = path.with_name(path.name + ".new")
    waiting.unlink(missing_ok=True)
    descriptor = open_own(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), *owner)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    waiting.replace(path)
