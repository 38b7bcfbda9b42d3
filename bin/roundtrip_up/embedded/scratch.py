"""A data folder for one run of tests or one benchmark: made in the temporary folder, gone afterwards.

Also clears away what killed runs left, by the lock that a living run holds on its folder.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from roundtrip_up.embedded.unprivileged import ELSEWHERE, forget, is_roots_alone
from roundtrip_up.folders import Data, open_data, open_lock
from roundtrip_up.orphan_processes import end_leftovers
from roundtrip_up.ownership import open_own, require_own_folder
from roundtrip_up.refusal import Refusal, about_folder
from roundtrip_up.secrets_store import read_json

PREFIX = "roundtrip-run-"


@contextlib.contextmanager
def data_folder() -> Iterator[Data]:
    """A fresh data folder, removed at the end."""
    _clear_dead_ones()
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        if os.geteuid() == 0:
            folder.chmod(0o711)
    except OSError as error:
        raise about_folder(error, Path(tempfile.gettempdir()), "name another one: TMPDIR=/some/folder") from error
    data = open_data(folder)
    descriptor = open_lock(data)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield data
    finally:
        _remove(data)
        os.close(descriptor)


def _remove(data: Data) -> None:
    with contextlib.suppress(Refusal):
        forget(data, read_json(data.secrets).get("instance", ""))
    shutil.rmtree(data.folder, ignore_errors=True)


def _clear_dead_ones() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        data = Data(folder)
        with contextlib.suppress(OSError, Refusal):
            require_own_folder(folder, "remove it")
            with _unused(data):
                end_leftovers(data.processes)
                _remove(data)


def clear_outside() -> None:
    """As root: remove what unused data folders in the temporary folder have outside of themselves."""
    temporary = Path(tempfile.gettempdir()).resolve()
    for mark in (mark for folder in ELSEWHERE if is_roots_alone(folder) for mark in folder.glob("*/belongs-to")):
        with contextlib.suppress(OSError):
            data = Data(Path(os.fsdecode(mark.read_bytes().strip())))
            if data.folder.is_relative_to(temporary):
                with _unused(data):
                    shutil.rmtree(mark.parent)


@contextlib.contextmanager
def _unused(data: Data) -> Iterator[None]:
    """OSError where a living run holds the data folder."""
    if not data.folder.exists():
        yield
        return
    descriptor = open_own(data.lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
