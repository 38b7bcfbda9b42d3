"""Whose is it? Folders, files and processes are touched only where nobody but us can have put them.

As root, whoever owns the folder that we work in could otherwise lead us, by a symlink or a name, to files and processes
that are not theirs. Standard library only.
"""

import contextlib
import os
import pwd
import stat
import subprocess
from pathlib import Path

from roundtrip_up.refusal import Refusal

LINKS_FOLLOWED = 40  # as the kernel
ROOT_USER = 0
CLONE_OWNER = Path(__file__).stat().st_uid  # whose code this is: it could do as it likes without any symlink
HAS_PROC = Path("/proc/self/cwd").exists()


def require_own_folder(folder: Path, remedy: str) -> None:
    """Refusal unless the folder is ours, nobody else may write to it, and nobody else can put another in its place."""
    require_safe_way(folder, remedy)
    try:
        found = folder.stat()
    except OSError as error:
        raise Refusal(f"{folder} cannot be used ({error.strerror}). Repair it, or {remedy}.") from error
    if not stat.S_ISDIR(found.st_mode):
        raise Refusal(f"{folder} is no folder. Move it away, or {remedy}.")
    if found.st_uid != os.geteuid():
        owner, us = name_of(found.st_uid), name_of(os.geteuid())
        raise Refusal(
            f"{folder} belongs to {owner}, and you are {us}: its owner could lead what is written there elsewhere."
            f" Start as {owner}, or {remedy}."
        )
    if _others_may_write(found):
        raise Refusal(f"{folder} may be written to by other users. Run chmod go-w on it, or {remedy}.")


def require_safe_way(folder: Path, remedy: str, links: int = LINKS_FOLLOWED) -> None:
    """Each folder and symlink on the way is ours or root's, and others may only add to it (as to /tmp)."""
    for path in (*reversed(folder.parents), folder):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return  # what is not there yet, we make
        except OSError as error:
            raise Refusal(f"{path} cannot be used ({error.strerror}). Repair it, or {remedy}.") from error
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link or path != folder:
            _require_trusted(path, found, folder, remedy)
        if is_link:
            if not links:
                raise Refusal(f"{folder} leads in a circle. Repair it, or {remedy}.")
            require_safe_way(path.parent / path.readlink(), remedy, links - 1)


def _require_trusted(path: Path, found: os.stat_result, folder: Path, remedy: str) -> None:
    is_link = stat.S_ISLNK(found.st_mode)
    strange = os.geteuid() == ROOT_USER or is_link  # whoever owns the way to an ordinary user's home owns that user
    if strange and found.st_uid not in (ROOT_USER, os.geteuid(), CLONE_OWNER):
        raise Refusal(
            f"{path} belongs to {name_of(found.st_uid)}, who could put something else in the place of {folder}."
            f" Start as {name_of(found.st_uid)}, or {remedy}, in a place that only you and root can change."
        )
    if not is_link and not found.st_mode & stat.S_ISVTX and _others_may_write(found):
        raise Refusal(
            f"{path} may be written to by other users, who could put something else in the place of {folder}."
            f" Run chmod go-w on it, or {remedy}."
        )


def _others_may_write(found: os.stat_result) -> bool:
    """A group that is our own (as with a umask of 002) is nobody else."""
    group = bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in (os.getegid(), 0)
    return group or bool(found.st_mode & stat.S_IWOTH)


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a plain file of ours. Never follows a symlink, nor another name of a file that lies elsewhere."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)  # a pipe must not hold us
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise PermissionError(1, "it is not a plain file of yours", str(path))


def read_own(path: Path) -> str:
    """The text of a plain file of ours; OSError for anything else."""
    with os.fdopen(open_own(path, os.O_RDONLY), encoding="utf-8") as file:
        return file.read()


def make_own_folder(folder: Path) -> None:
    """A folder inside one of ours that only we can enter. OSError where something else has its name."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(1, "it is not a folder of yours", str(folder))


def user_of(pid: int) -> int | None:
    """The id of the user whom a process runs as; None when it is gone."""
    if HAS_PROC:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}").stat().st_uid
        return None
    asked = subprocess.run(["ps", "-o", "uid=", "-p", str(pid)], capture_output=True, text=True)
    return int(asked.stdout) if asked.stdout.strip().isdigit() else None


def sits_in(pid: int, folders: tuple[Path, ...]) -> bool:
    """Whether a process works in one of these folders or below. Where the system does not tell: taken as true."""
    if not HAS_PROC:
        return True
    try:
        place = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return False
    return any(place.is_relative_to(folder.resolve()) for folder in folders)


def name_of(uid: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"user {uid}"
