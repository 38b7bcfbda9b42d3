"""The template of the children: a process with Django loaded, no thread and no connection, forked for each child.

    python -m tasks.runs.forks FD

A fork takes milliseconds where a new interpreter with Django takes a second, and shares its memory. The worker itself
has threads and cannot be forked. It asks by `fork` and hands over the child's end of a pipe; it is told `forked` with
the process id, and `dead` with id and wait status. When the worker's end is gone this process ends, and the kernel
ends its children with it.
"""

import contextlib
import gc
import os
import signal
import sys
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait

FORK, FORKED, DEAD = "fork", "forked", "dead"


def main() -> None:
    import django

    control = Connection(int(sys.argv[1]))
    django.setup()
    from tasks.runs import child  # noqa: F401 - loaded once, for all of them

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ears = _hear_of_deaths()
    gc.collect()
    gc.freeze()  # what all children share is not looked at, so it stays shared
    with contextlib.suppress(EOFError, OSError):
        while True:
            ready = wait([control, ears])
            if ears in ready:
                os.read(ears, 4096)
                _tell_deaths(control)
            if control in ready and control.recv() == FORK:
                control.send((FORKED, _fork(control, ears), 0))


def _hear_of_deaths() -> int:
    ears, mouth = os.pipe()
    for end in (ears, mouth):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    return ears


def _tell_deaths(control: Connection) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            control.send((DEAD, pid, status))


def _fork(control: Connection, ears: int) -> int:
    end = reduction.recv_handle(control)
    pid = os.fork()
    if pid:
        os.close(end)
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        os.close(ears)
        from tasks.runs import child

        child.main(Connection(end))
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
