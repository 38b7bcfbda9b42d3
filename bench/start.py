"""How long the embedded servers take: initdb and first start, a clean restart, and a restart after both were killed.

Keys: `first_start_s`, `restart_s`, `restart_after_kill_s`.
"""

import argparse
import signal
import time

import bench


def run(_arguments: argparse.Namespace) -> dict:
    began = time.perf_counter()
    with bench.topology() as servers:
        figures = {"first_start_s": round(time.perf_counter() - began, 2)}
        for key, postgres, valkey in (
            ("restart_s", None, None),
            ("restart_after_kill_s", signal.SIGKILL, signal.SIGKILL),
        ):
            servers.servers.stop("postgres", postgres)
            servers.servers.stop("valkey", valkey)
            began = time.perf_counter()
            servers.servers.start("postgres")
            servers.servers.start("valkey")
            figures[key] = round(time.perf_counter() - began, 2)
    bench.print_table(("start of PostgreSQL and Valkey", "seconds"), list(figures.items()))
    return figures


if __name__ == "__main__":
    bench.main(run)
