"""Callers for the API's tests: keys with scopes, with or without a subscriber."""

import pytest
from rest_framework.test import APIClient

from kernel.auth import Scope, create_key


@pytest.fixture
def client_with(db):
    """client_with("events:write", subscriber="acme") → an APIClient; no scopes: all."""

    def make(*scopes, subscriber=""):
        _, token = create_key("test", list(scopes or Scope.values), subscriber=subscriber)
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        client.get("/api/v1/deliveries/")  # the key's last use is noted once a minute: not in a counted request
        return client

    return make


@pytest.fixture
def api(client_with):
    return client_with()
