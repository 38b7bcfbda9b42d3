"""Whose endpoint it is decides which private networks its deliveries reach; the row says why not."""

import pytest

from delivery import events
from delivery.engine.claiming import Claimer
from delivery.engine.drain import Drain
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.resolver import Resolver
from delivery.engine.transport.transfer import Transfers
from delivery.models import Attempt, Delivery
from kernel.network.openings import parse_openings

pytestmark = pytest.mark.django_db(transaction=True)


def drain_with(entries: str) -> None:
    openings = parse_openings(entries)
    transfers = Transfers(Resolver(allowed_networks=openings), TransferConfig(allowed_networks=openings))
    try:
        Drain(transfers, Claimer(), linger_seconds=0.0).run()
    finally:
        transfers.close()


def test_deliveries_reach_a_private_receiver_only_for_whom_it_is_opened(make_endpoint, sink):
    port = sink.url.rpartition(":")[2]
    for who in ("acme", "bob", ""):
        make_endpoint(f"{sink.url}/{who}", subscriber=who)
        events.record("a.b", {}, subscriber=who)
    drain_with(f"acme@127.0.0.0/8:{port}")
    assert [seen.path for seen in sink.seen] == ["/acme"]
    drain_with(f"*@127.0.0.0/8:{port}")  # what was refused stays so until somebody redrives it
    states = dict(Delivery.objects.values_list("endpoint__subscriber", "state"))
    assert states == {"acme": "delivered", "bob": "dead_letter", "": "dead_letter"}
    refused = Attempt.objects.filter(outcome="blocked")
    assert {(row.error.partition(" ")[0], row.address, row.request_sent) for row in refused} == {
        ("loopback:", "127.0.0.1", False)
    }


def test_an_entry_without_a_name_serves_the_operators_own_endpoints(make_endpoint, sink):
    for who in ("acme", ""):
        make_endpoint(f"{sink.url}/{who}", subscriber=who)
        events.record("a.b", {}, subscriber=who)
    drain_with("127.0.0.0/8")
    assert [seen.path for seen in sink.seen] == ["/"]
