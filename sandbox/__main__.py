"""`python -m sandbox`: one process, on two ports or one.

Ends on SIGTERM or Ctrl-C within two seconds, whatever is in the air.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

from sandbox import settings
from sandbox.log import log
from sandbox.process import Sandbox

STOP_SECONDS = 1.5


def port(text: str) -> int:
    """0 takes a free one. More than 65535 is refused here: the operating system would take it modulo 65536."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text!r}")
    return int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=port, help="one port for both, at /provider and /receiver")
    parser.add_argument("--provider-port", type=port, default=8091, help="without --port (default 8091)")
    parser.add_argument("--receiver-port", type=port, default=8092, help="without --port (default 8092)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--receiver-only", action="store_true", help="no provider; needs no secrets")
    only.add_argument("--provider-only", action="store_true")
    parser.add_argument("--journal-entries", type=int, default=200_000, help="requests the receiver remembers")
    parser.add_argument("--journal-mib", type=int, default=16, help="memory for their headers and bodies")
    parser.add_argument("--max-jobs", type=int, default=200_000, help="jobs the provider remembers")
    return parser.parse_args()


async def serve(options: argparse.Namespace, configured: settings.Settings) -> int:
    sandbox = Sandbox(configured, with_provider=not options.receiver_only, with_receiver=not options.provider_only)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        if options.port is not None:
            urls = await sandbox.start_behind_one_port(options.host, options.port)
        else:
            ports = {"provider": options.provider_port, "receiver": options.receiver_port}
            urls = await sandbox.start(options.host, ports)
    except OSError as error:
        log("cannot_listen", host=options.host, error=error.strerror or error, do="choose another port")
        return 1
    log("ready", **urls)
    await stop.wait()
    await asyncio.wait_for(sandbox.stop(), STOP_SECONDS)
    log("stopped")
    return 0


def main() -> int:
    options = arguments()
    try:
        configured = settings.load(
            with_provider=not options.receiver_only,
            journal_entries=options.journal_entries,
            journal_bytes=options.journal_mib * 1024 * 1024,
            max_jobs=options.max_jobs,
        )
    except settings.Misconfigured as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 2
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: slower, not different
        return asyncio.run(serve(options, configured))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(options, configured))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # do not wait for a webhook that a daemon thread is sending, nor for a helper thread
