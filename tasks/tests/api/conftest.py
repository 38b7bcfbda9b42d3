"""API callers: an unbound key, one bound to a subscriber, and a configured provider that nobody calls."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from kernel.auth import create_key


@pytest.fixture(autouse=True)
def provider(settings):
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.SANDBOX_PROVIDER_KEY = "key"
    settings.SANDBOX_WEBHOOK_SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"
    settings.CELERY_BROKER_URL = ""


@pytest.fixture
def client_with(db) -> Callable[..., APIClient]:
    def make(*scopes: str, subscriber: str = "") -> APIClient:
        _, token = create_key("test", list(scopes), subscriber=subscriber)
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return make


@pytest.fixture
def client(client_with) -> APIClient:
    return client_with("tasks:read", "tasks:write")
