"""The one way to give up: a line that says what is wrong and what to do. Never a traceback for a user's trouble."""

import errno
from pathlib import Path


class Refusal(Exception):
    """Roundtrip cannot go on. The message is one line for a person; `status` is the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(" ".join(message.split()))
        self.status = status


def about_folder(error: OSError, folder: Path, remedy: str) -> Refusal:
    """Words for a folder that does not let us write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refusal(f"The disk is full at {folder}. Free some space, or {remedy}.")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return Refusal(f"{folder} cannot be written to ({error.strerror}). Change its owner, or {remedy}.")
    return Refusal(f"{folder} cannot be used ({error.strerror or error}). Repair it, or {remedy}.")
