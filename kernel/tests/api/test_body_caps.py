"""Each door takes bodies of its own size: beyond it 413 in words, before any view, and nothing is stored."""

import pytest
from django.conf import settings as standing
from django.urls import reverse

from kernel.web.bodies import cap_of

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("path", "cap"),
    [
        ("/api/v1/events/bulk/", 4 * MIB),
        ("/api/v1/events", MIB + 64 * 1024),
        ("/api/v1/endpoints/7/preview-postback/", MIB + 64 * 1024),
        ("/api/v1/batches/", 32 * MIB),
        ("/api/v1/tasks/", MIB),
        ("/api/v1/operations/", 256 * 1024),
        ("/admin/delivery/delivery/", 4 * MIB),
        ("/webhooks/map_search/", standing.INBOUND_MAX_BYTES),
    ],
)
def test_a_door_for_small_things_takes_small_bodies(path, cap):
    assert cap_of(path, standing.BODY_CAPS) == cap


@pytest.mark.parametrize("path", ["events/", "events/bulk/", "endpoints/", "tasks/", "operations/", "no-such-door/"])
def test_a_body_beyond_its_doors_cap_is_a_413_that_says_the_cap(client, settings, path):
    """Nobody is asked who calls: the database is not needed for it."""
    settings.BODY_CAPS = {"/api/": 1024}
    answer = client.post(f"/api/v1/{path}", b"x" * 1025, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert answer["content-type"] == "application/problem+json"
    assert "at most 1 KiB" in answer.json()["detail"]


@pytest.mark.django_db
def test_a_body_as_large_as_the_cap_goes_on_to_its_view(client, settings):
    settings.BODY_CAPS = {"/api/": 1024}
    assert client.post("/api/v1/events/", b"x" * 1024, content_type="application/json").status_code == 401


def test_a_form_that_was_cut_reaches_no_view(client, settings):
    settings.BODY_CAPS = {"/": 100}
    answer = client.post(reverse("admin:login"), {"username": "x" * 200})
    assert answer.status_code == 400


def test_an_inbound_webhook_is_refused_by_its_own_view_which_counts_it(client, settings, db):
    settings.BODY_CAPS = {"/webhooks/": 10}
    answer = client.post("/webhooks/nobody/", b"x" * 100, content_type="application/json")
    assert answer.status_code == 404
