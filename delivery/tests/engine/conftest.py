"""What the engine's tests share: an endpoint, a receiver, and one drain on real sockets and the real database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from delivery.engine.claiming import Claimer
from delivery.engine.drain import Drain, DrainReport
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.resolver import Resolver
from delivery.engine.transport.transfer import Transfers
from delivery.models import Endpoint, EndpointHealth
from delivery.policy import signing
from delivery.tests.engine.receiver import Receiver, receiver
from kernel.network.openings import parse_openings

LOOPBACK = parse_openings("*@127.0.0.0/8")


@pytest.fixture(scope="session")
def _standing_receiver() -> Iterator[Receiver]:
    with receiver() as standing:
        yield standing


@pytest.fixture
def sink(_standing_receiver: Receiver) -> Receiver:
    _standing_receiver.seen.clear()
    _standing_receiver.answers.clear()
    _standing_receiver.most_in_air = 0
    return _standing_receiver


@pytest.fixture
def make_endpoint(db: None) -> Callable[..., Endpoint]:
    def make(url: str = "http://127.0.0.1:2/", **values: Any) -> Endpoint:
        values = {"subscriber": "acme", "secret": signing.new_secret()[0], "host": "127.0.0.1", **values}
        health = values.pop("health", {})
        endpoint = Endpoint.objects.create(url=url, **values)
        EndpointHealth.objects.create(endpoint=endpoint, **health)
        return endpoint

    return make


def new_drain(max_in_flight: int = 50, **options: Any) -> tuple[Drain, Transfers]:
    config = TransferConfig(max_in_flight=max_in_flight, allowed_networks=LOOPBACK)
    transfers = Transfers(Resolver(allowed_networks=LOOPBACK), config)
    return Drain(transfers, options.pop("claimer", None) or Claimer(), **{"linger_seconds": 0.0, **options}), transfers


@pytest.fixture
def drain() -> Callable[..., DrainReport]:
    def run(max_in_flight: int = 50, **options: Any) -> DrainReport:
        engine, transfers = new_drain(max_in_flight, **options)
        try:
            return engine.run()
        finally:
            transfers.close()

    return run
