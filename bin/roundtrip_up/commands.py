"""The command lines of bin/up, bin/test and bin/bench; the one place where a Refusal becomes a line and a status."""

import argparse
import errno
import sys
from collections.abc import Sequence
from pathlib import Path

from roundtrip_up import venv
from roundtrip_up.benching import bench, names
from roundtrip_up.folders import ROOT
from roundtrip_up.refusal import Refusal
from roundtrip_up.testing import test
from roundtrip_up.up import up


def main(argv: Sequence[str]) -> int:
    """`argv` begins with the command: up, test, bench or venv."""
    command, *rest = argv
    try:
        return {"up": _up, "test": _test, "bench": _bench, "venv": _venv}[command](rest)
    except Refusal as refusal:
        print(f"bin/{command}: {refusal}", file=sys.stderr)
        return refusal.status
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        where = f" at {error.filename}" if error.filename else ""
        print(
            f"bin/{command}: {error.strerror}{where}. Free some space, or use another disk with --data DIR.",
            file=sys.stderr,
        )
        return 1


def _up(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bin/up",
        description="Start PostgreSQL, Valkey, web, workers, beat, sandbox. Ctrl-C stops all; the data stays.",
        epilog="DATABASE_URL, CELERY_BROKER_URL, CHANNEL_LAYER_URL in the environment win over the embedded servers.",
    )
    parser.add_argument("--port", type=_port, default=8000, help="the web port on this machine (default 8000)")
    parser.add_argument(
        "--data", type=Path, default=ROOT / "var", metavar="DIR", help="where everything is kept (default var)"
    )
    parser.add_argument(
        "--no-sandbox", dest="sandbox", action="store_false", help="no simulated provider, no sample receiver"
    )
    parser.add_argument("--workers", type=_workers, default=2, metavar="N", help="processes that deliver (default 2)")
    return up(parser.parse_args(argv))


def _test(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bin/test",
        description="Run the tests on servers of their own. Other arguments go to pytest: bin/test tasks -k cancel",
        usage="bin/test [--topology embedded|external] [pytest arguments]",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--topology",
        choices=("embedded", "external"),
        default="embedded",
        help="external: the servers named by DATABASE_URL, CELERY_BROKER_URL and CHANNEL_LAYER_URL",
    )
    ours, pytest_arguments = parser.parse_known_args(argv)
    return test(ours.topology, pytest_arguments)


def _bench(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: bin/bench NAME [--json] [options]\n\nNAME is one of: {', '.join(names()) or 'none yet'}")
        return 0 if argv else 2
    return bench(argv[0], argv[1:])


def _venv(argv: list[str]) -> int:
    """For `.ci/run`: fill the venv with what development needs, say where its Python is."""
    print(venv.ensure(venv.DEVELOPMENT, lambda text: print(text, file=sys.stderr, flush=True)).python)
    return 0


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def _workers(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"a number from 1 to 64 is needed, not {text!r}")
    return int(text)
