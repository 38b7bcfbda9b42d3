"""Fly requests through real `Transfers` in tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from delivery.engine.transport.messages import Request, TransferConfig, TransferResult
from delivery.engine.transport.resolver import Resolver, ResolverConfig
from delivery.engine.transport.transfer import Transfers
from kernel.network.openings import parse_openings

LOOPBACK = parse_openings("*@127.0.0.0/8, *@::1/128")


@contextlib.contextmanager
def flying(names: Resolver | None = None, **options: object) -> Iterator[Transfers]:
    config = TransferConfig(**({"allowed_networks": LOOPBACK} | options))  # type: ignore[arg-type]
    names = names or Resolver(allowed_networks=config.allowed_networks)
    transfers = Transfers(names, config)
    try:
        yield transfers
    finally:
        transfers.close()
        names.close()


def land(transfers: Transfers, count: int | None = None, seconds: float = 10.0) -> list[TransferResult]:
    """Poll until so many results (or all) are there."""
    wanted = len(transfers) if count is None else count
    results: list[TransferResult] = []
    ends = time.monotonic() + seconds
    while len(results) < wanted and time.monotonic() < ends:
        results += transfers.poll(0.2)
    assert len(results) >= wanted, f"only {len(results)} of {wanted} transfers ended"
    return results


def fly(url: str, *, names: Resolver | None = None, request: dict | None = None, **options: object) -> TransferResult:
    """One request there and back."""
    with flying(names, **options) as transfers:
        transfers.add(Request(url, **({"body": b"{}", "timeout_ms": 3000} | (request or {}))))
        return land(transfers)[0]


def names_of(table, **config: object) -> Resolver:
    """Names that ask `table(host)` instead of the system; no canary."""
    settings = ResolverConfig(**({"canary": ""} | config))  # type: ignore[arg-type]
    return Resolver(settings, allowed_networks=LOOPBACK, addresses_of=table)
