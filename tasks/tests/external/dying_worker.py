"""Workers of their own, one after the other: for each point that is read, one starts what is due and is killed there.

Not a test. Django is loaded once; each worker is a process that comes of it, with connections of its own.
"""

import os
import signal
import sys


def main() -> None:
    import django

    django.setup()
    from tasks.engine import faults
    from tasks.tests import drive

    def die(point: str) -> None:
        faults.listener = lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == point else None
        drive.start_due(5)

    for line in sys.stdin:
        child = os.fork()
        if not child:
            die(line.strip())
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
