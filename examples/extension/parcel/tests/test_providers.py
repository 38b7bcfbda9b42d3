"""What every adapter must do, asked of this one: the suite is Roundtrip's, the fixtures are ours."""

from collections.abc import Iterator

import pytest

from kernel.network.openings import parse_openings
from parcel.providers import CourierProvider
from parcel.tests.courier import KEY, Courier
from tasks.providers.base import Account, ProviderUpdate
from tasks.states import JobStatus
from tasks.tests.provider_conformance import ProviderConformance


def adapter(url: str, key: str = KEY) -> CourierProvider:
    """A server on this machine has an address that providers may not have, unless it is opened."""
    return CourierProvider(Account("courier", url, key, ("secret",), networks=parse_openings("127.0.0.0/8")))


@pytest.fixture(scope="module")
def courier() -> Iterator[Courier]:
    server = Courier()
    yield server
    server.shutdown()
    server.server_close()


class TestCourier(ProviderConformance):
    kind = "parcel"
    input = {"grams": 500, "to": {"country": "NO", "zip": "0150"}}
    bad_input = {"colour": "red"}
    callbacks = [
        (b'{"id": "j1", "status": "done"}', [ProviderUpdate("j1", "", JobStatus.SUCCEEDED, "done")]),
        (
            b'{"id": "j1", "status": "failed", "error": "No van."}',
            [ProviderUpdate("j1", "", JobStatus.FAILED, "failed", error_text="No van.")],
        ),
    ]

    @pytest.fixture
    def provider(self, courier: Courier) -> CourierProvider:
        return adapter(courier.url)

    @pytest.fixture
    def denied_provider(self, courier: Courier) -> CourierProvider:
        return adapter(courier.url, "wrong")

    @pytest.fixture
    def dead_provider(self) -> CourierProvider:
        return adapter("http://127.0.0.1:9")
