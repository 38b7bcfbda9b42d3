"""Whether age makes it slow: claim, settle and lists with 1 and 5 million finished deliveries, beside an empty one.

Both databases live on one server, and the engine's own claim and settle (100 rows of 50 endpoints at a time) and the
API's pages are asked of them in turn, so that whatever else the machine does weighs on both. Each finished delivery has
its attempt.

Keys: `ratio_claim_5m`, `ratio_settle_5m`, `ratio_list_5m` (by medians, full : empty), `list_5m_ms`, and all medians.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import psycopg

import bench
from bench.harness import measure, report
from bench.harness.probing import PAGES, ROWS, Figures, Probe, medians
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import ratio, shown

ENDPOINTS, DUE = 50, 20_000
FULL, QUICK = (1_000_000, 5_000_000), (5_000, 20_000)
TURNS, ROUNDS, LOOKS = 18, 10, 1  # TURNS · ROUNDS · ROWS deliveries are claimed at each size: fewer than are due
EMPTY = "bench_empty"
# Five million deliveries with their attempts are some 4 GB: as much memory as a small server would give PostgreSQL.
MEMORY = {"shared_buffers": "512MB", "max_wal_size": "4GB", "maintenance_work_mem": "256MB"}


def run(arguments: argparse.Namespace) -> dict:
    sizes = QUICK if arguments.quick else FULL
    with receiver() as receiving, bench.topology(**MEMORY) as servers:
        servers.set_up_django()
        empty, full = _probes(servers, receiving)
        try:
            measured = _all_sizes(empty, full, sizes)
        finally:
            empty.close()
            full.close()
    _print(measured)
    return _figures(measured[sizes[-1]], measured)


def _probes(servers: bench.Topology, receiving: Receiver) -> tuple[Probe, Probe]:
    """One on a copy of the fresh database, one on the database that grows."""
    from django.db import connection

    connection.close()
    connection.close_pool()
    url = servers.env["DATABASE_URL"]
    base, _, name = url.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as server:
        server.execute(f'CREATE DATABASE {EMPTY} TEMPLATE "{name}"')
    return tuple(Probe(servers.env, where, receiving.port, ENDPOINTS) for where in (f"{base}/{EMPTY}", url))  # type: ignore[return-value]


def _all_sizes(empty: Probe, full: Probe, sizes: tuple[int, ...]) -> dict[int, tuple[Figures, Figures]]:
    """{finished deliveries: (figures of the empty one, figures of the full one)}."""
    measured, stood = {}, 0
    for size in sizes:
        report.progress(f"lay {size - stood:,} finished deliveries")
        full.ask(f"grow {size - stood}")
        stood = size
        report.progress(f"measure with {size:,}")
        measured[size] = _in_turn(empty, full)
    return measured


def _in_turn(empty: Probe, full: Probe) -> tuple[Figures, Figures]:
    both = (empty, full)
    for probe in both:
        probe.ask(f"record {DUE}")
    found: tuple[Figures, Figures] = (defaultdict(list), defaultdict(list))
    for _ in range(TURNS):
        for command in (f"rounds {ROUNDS}", f"pages {LOOKS}"):
            for probe, figures in zip(both, found, strict=True):
                for name, values in probe.ask(command).items():
                    figures[name] += values
    return found


def _print(measured: dict[int, tuple[Figures, Figures]]) -> None:
    headers, columns = ["what"], []
    for size, (empty, full) in measured.items():
        headers += ["empty", f"{size:,}", "ratio"]
        columns.append((medians(empty), medians(full)))
    rows = []
    for name in ("claim", "settle", *PAGES):
        row = [name]
        for empty, full in columns:
            row += [shown(empty[name], 2), shown(full[name], 2), shown(full[name] / empty[name], 2)]
        rows.append(row)
    report.table(f"Median ms; claim and settle of {ROWS} rows", headers, rows)


def _figures(last: tuple[Figures, Figures], measured: dict[int, tuple[Figures, Figures]]) -> dict:
    empty, full = medians(last[0]), medians(last[1])
    figures = {f"ratio_{name}_5m": ratio(full[name], empty[name]) for name in ("claim", "settle", "list")}
    figures["list_5m_ms"] = round(full["list"], 1)
    figures["ms"] = {
        str(size): {name: [round(of_empty, 2), round(medians(each[1])[name], 2)]
                    for name, of_empty in medians(each[0]).items()}
        for size, each in measured.items()
    }  # fmt: skip
    report.verdicts([("ratio_claim_5m", figures["ratio_claim_5m"], "<=", 1.5)])
    return {**figures, "machine": measure.machine()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="thousands instead of millions")


if __name__ == "__main__":
    bench.main(run, add_arguments)
