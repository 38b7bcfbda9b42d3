"""One running system for all tests of a session that need the real processes."""

from collections.abc import Iterator

import pytest

from tests.e2e.system import EXTERNAL, System


@pytest.fixture(scope="session")
def system(tmp_path_factory) -> Iterator[System]:
    told = {"DELIVERY_ALLOWED_NETWORKS": "*@127.0.0.0/8"}  # receivers of subscribers, too, live at the sandbox
    system = System(tmp_path_factory.mktemp("roundtrip") / "data", external=EXTERNAL, told=told)
    system.start()
    yield system
    assert system.stop() == 0
