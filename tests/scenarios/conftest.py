"""What the scenarios share with the engine's own tests: an endpoint, a receiver, one drain on real sockets."""

import pytest
from rest_framework.test import APIClient

from delivery.tests.engine.conftest import _standing_receiver, drain, make_endpoint, sink  # noqa: F401 - fixtures
from kernel.auth import Scope, create_key


@pytest.fixture
def api(db):
    """An API client with every scope."""
    _, token = create_key("scenario", list(Scope.values))
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client
