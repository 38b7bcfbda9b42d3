"""A body without a declared length is read like any other, at every door."""

import pytest

from config.asgi import application
from config.tests.served import chunked, served
from delivery.models import Endpoint
from kernel.auth import Scope, create_key
from kernel.models import AuditEntry

SECRET = "whsec_" + "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU="


pytestmark = pytest.mark.django_db(transaction=True)  # the server's threads must see the rows


@pytest.fixture
def endpoint():
    return Endpoint.objects.create(name="chunked", url="https://example.com/x", event_types=["*"])


@pytest.fixture
def token(endpoint):
    return create_key("chunked", list(Scope.values))[1]


def test_a_change_sent_in_chunks_is_made(endpoint, token):
    with served(application) as address:
        path = f"/api/v1/endpoints/{endpoint.pk}/"
        status, answer = chunked(address, "PATCH", path, {"name": "told in chunks"}, token)
    assert (status, answer["name"]) == (200, "told in chunks")


def test_a_secret_of_ones_own_sent_in_chunks_is_the_one_kept(endpoint, token):
    with served(application) as address:
        path = f"/api/v1/endpoints/{endpoint.pk}/rotate-secret/"
        status, answer = chunked(address, "POST", path, {"secret": SECRET}, token)
    assert (status, answer["secret"]) == (200, SECRET)


def test_a_reason_sent_in_chunks_is_recorded(endpoint, token):
    with served(application) as address:
        status, _ = chunked(address, "POST", f"/api/v1/endpoints/{endpoint.pk}/pause/", {"reason": "moving"}, token)
    assert status == 200
    assert AuditEntry.objects.filter(reason="moving").exists()


def test_bad_json_sent_in_chunks_is_refused_like_any_other(endpoint, token):
    with served(application) as address:
        status, _ = chunked(address, "PATCH", f"/api/v1/endpoints/{endpoint.pk}/", ["no object"], token)
    assert status == 400


def test_a_body_beyond_its_doors_cap_sent_in_chunks_is_a_413_and_does_nothing(endpoint, token):
    with served(application) as address:
        path = "/api/v1/operations/"
        status, answer = chunked(address, "POST", path, {"verb": "discard_deliveries", "reason": "x" * 300_000}, token)
    assert (status, answer["code"]) == (413, "too_large")
    assert "at most 256 KiB" in answer["detail"]
    assert not AuditEntry.objects.exists()
