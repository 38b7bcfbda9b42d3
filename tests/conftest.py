"""One running system for all tests of a session that need the real processes."""

from collections.abc import Iterator

import pytest

from tests.e2e.system import EXTERNAL, System


@pytest.fixture(scope="session")
def system(tmp_path_factory) -> Iterator[System]:
    system = System(tmp_path_factory.mktemp("roundtrip") / "data", external=EXTERNAL)
    system.start()
    yield system
    assert system.stop() == 0
