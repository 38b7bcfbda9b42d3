"""A command in the foreground of our terminal: pytest or a benchmark, while our servers run beside it."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from roundtrip_up.process import tie_to_parent


def run(argv: Sequence[str], env: dict[str, str], cwd: Path) -> int:
    """Its exit status. Ctrl-C reaches it through the terminal, SIGTERM through us; we outlive it to clean up."""
    process = subprocess.Popen(list(argv), env=env, cwd=cwd, preexec_fn=tie_to_parent(signal.SIGTERM))

    def pass_on(number: int, _frame: object) -> None:
        process.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
        signal.SIGHUP: signal.signal(signal.SIGHUP, pass_on),
    }
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
