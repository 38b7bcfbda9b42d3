"""For root: the ordinary user that PostgreSQL and Valkey run as, and a place where that user can reach what it needs.

PostgreSQL refuses to run as root, rightly. Where the clone or the data folder lies under a folder that other users may
not enter (such as /root), nothing above the clone is opened up: the programs are copied, and the servers' data is kept,
below /var/lib/roundtrip (or /var/tmp/roundtrip), in folders that only that user can enter.
"""

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from roundtrip_up.folders import Data
from roundtrip_up.refusal import Refusal, about_folder
from roundtrip_up.venv import Venv

ELSEWHERE = (Path("/var/lib/roundtrip"), Path("/var/tmp/roundtrip"))
CANDIDATES = ("postgres", "nobody")
INSTANCE = re.compile(r"[0-9a-f]{16}")  # a name that leads nowhere else


@dataclass(frozen=True)
class Place:
    """Where the servers' programs and data lie, and the user they run as (None: the one who started us)."""

    user: str | None
    postgres_programs: Path
    valkey_program: Path
    postgres_data: Path
    valkey_data: Path


def place(venv: Venv, data: Data, instance: str) -> Place:
    """Choose user and folders, and make the folders. `instance` names the data folder where it has to lie elsewhere."""
    if os.geteuid() != 0:
        _make_own(data.folder / "postgres", None)
        _make_own(data.folder / "valkey", None)
        return Place(None, venv.postgres, venv.valkey, data.folder / "postgres", data.folder / "valkey")
    user = server_user()
    programs = venv.postgres, venv.valkey
    if not (_can_run(user, venv.postgres / "bin" / "postgres", venv.postgres) and _can_run(user, venv.valkey, None)):
        programs = _copy_programs(venv)
    home = data.folder if _can_enter(user, data.folder) else _elsewhere() / instance
    if home != data.folder:
        home.mkdir(mode=0o711, exist_ok=True)
        home.chmod(0o711)
        (home / "belongs-to").write_bytes(os.fsencode(data.folder) + b"\n")
    for name in ("postgres", "valkey"):
        if home != data.folder:
            _move(data.folder / name, home / name)
        _make_own(home / name, user)
        if home != data.folder:
            _point(data.folder / name, home / name)
    return Place(user, *programs, home / "postgres", home / "valkey")


def forget(data: Data, instance: str) -> None:
    """Remove what lies outside a data folder that is itself about to be removed."""
    for folder in (
        folder / instance for folder in ELSEWHERE if INSTANCE.fullmatch(instance) and is_roots_alone(folder)
    ):
        with contextlib.suppress(OSError):
            if (folder / "belongs-to").read_bytes() == os.fsencode(data.folder) + b"\n":
                shutil.rmtree(folder, ignore_errors=True)


def server_user() -> str:
    """The user that servers run as when root starts them: ROUNDTRIP_SERVER_USER, or `postgres`, or `nobody`."""
    wanted = os.environ.get("ROUNDTRIP_SERVER_USER")
    for name in (wanted,) if wanted else CANDIDATES:
        with contextlib.suppress(KeyError):
            if pwd.getpwnam(name).pw_uid != 0:
                return name
    raise Refusal(
        f"PostgreSQL must not run as root and there is no user {wanted or ' or '.join(CANDIDATES)}."
        " Make one (useradd --system roundtrip) and set ROUNDTRIP_SERVER_USER=roundtrip."
    )


def _as_user(user: str, *argv: str) -> bool:
    """Whether this command succeeds for that user: the kernel's own answer, access lists included."""
    entry = pwd.getpwnam(user)
    try:
        tried = subprocess.run(
            argv,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
            cwd="/",
            env={},
            capture_output=True,
            check=False,
        )
    except PermissionError:
        return False
    return tried.returncode == 0


def _can_run(user: str, program: Path, tree: Path | None) -> bool:
    if not _as_user(user, str(program), "--version"):
        return False
    # A strict umask at installation can hide single files of a folder that can be entered.
    return tree is None or _as_user(
        user, "/bin/sh", "-c", 'cat "$1"/share/postgresql/postgres.bki >/dev/null', "sh", str(tree)
    )


def _can_enter(user: str, folder: Path) -> bool:
    return _as_user(user, "/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder))


def _make_own(folder: Path, user: str | None) -> None:
    """A folder that only `user` can enter. What it holds is handed over too if another user ran the servers before."""
    try:
        if folder.is_symlink() and folder.lstat().st_uid != os.geteuid():
            raise PermissionError(1, "it is a symlink of somebody else's", str(folder))
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        if user is not None and folder.stat().st_uid != (uid := pwd.getpwnam(user).pw_uid):
            gid = pwd.getpwnam(user).pw_gid
            for parent, folders, files in os.walk(folder):
                for name in (".", *folders, *files):
                    os.chown(Path(parent, name), uid, gid, follow_symlinks=False)
    except OSError as error:
        raise about_folder(error, folder, "choose another folder with --data DIR") from error


def _elsewhere() -> Path:
    """A folder of root's that everybody can walk through and nobody else can write to."""
    problem: OSError | None = None
    for folder in ELSEWHERE:
        try:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o755)
            found = folder.lstat()
        except OSError as error:
            problem = error
            continue
        if _is_roots(found):
            folder.chmod(0o755)
            return folder
        problem = PermissionError(1, "it is not a folder of root's alone")
    raise Refusal(
        f"The servers need a folder that their user can reach, and {ELSEWHERE[-1]} cannot be used ({problem})."
        " Move the clone out of the closed folder, or start it as an ordinary user."
    )


def is_roots_alone(folder: Path) -> bool:
    """Whether it is a real folder that root alone can change."""
    with contextlib.suppress(OSError):
        return _is_roots(folder.lstat())
    return False


def _is_roots(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022


def _copy_programs(venv: Venv) -> tuple[Path, Path]:
    """The servers' programs, copied once for each version of them to where every user can run them."""
    marks = [(path, path.stat()) for path in (venv.postgres / "bin" / "postgres", venv.valkey)]
    key = hashlib.sha256(
        repr([(str(path), mark.st_size, mark.st_mtime_ns) for path, mark in marks]).encode()
    ).hexdigest()[:16]
    target = _elsewhere() / f"programs-{key}"
    # The layout below site-packages stays: the programs find their libraries by relative paths.
    postgres = target / venv.postgres.parent.name / venv.postgres.name
    valkey = target / "valkey-server"
    if not target.exists():
        half = target.with_name(f"{target.name}.{os.getpid()}")
        package, site = venv.postgres.parent, venv.postgres.parent.parent
        skip = shutil.ignore_patterns("include", "*.a", "pgxs")
        shutil.copytree(venv.postgres, half / package.name / venv.postgres.name, symlinks=True, ignore=skip)
        libraries = site / f"{package.name}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, half / libraries.name, symlinks=True)
        shutil.copy2(venv.valkey, half / "valkey-server")
        _open_for_all(half)
        with contextlib.suppress(OSError):  # somebody else was quicker
            half.rename(target)
        shutil.rmtree(half, ignore_errors=True)
    return postgres, valkey


def _open_for_all(tree: Path) -> None:
    """Everybody may read and run our copy; root alone may change it."""
    for parent, _folders, files in os.walk(tree):
        Path(parent).chmod(0o755)
        for path in (Path(parent, name) for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _move(inside: Path, outside: Path) -> None:
    """Servers' data that a start from an open folder left in the data folder goes along."""
    if inside.is_dir() and not inside.is_symlink() and not outside.exists():
        shutil.move(inside, outside)


def _point(link: Path, target: Path) -> None:
    """A symlink in the data folder, so that whoever looks there finds where the data is."""
    if link.is_symlink():
        link.unlink()
    if not link.exists():
        link.symlink_to(target)
