"""Each encrypted column that no master key opens: its row is told and waits, everything else goes on."""

import pytest
from cryptography.fernet import Fernet
from django.urls import reverse
from django.utils import timezone

from delivery import events, workers
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.policy import signing
from kernel.models import BrokenStep
from kernel.rotation import places, sample

pytestmark = pytest.mark.django_db(transaction=True)
FILLED = {"headers": {"x-key": "hush"}, "client_certificate": "PEM", "earlier_secrets": []}
COLUMNS = ("url", "headers", "secret", "earlier_secrets", "client_certificate")


def test_only_endpoints_hold_secrets_so_that_these_tests_name_every_column():
    assert sorted(map(str, places())) == sorted(f"delivery.Endpoint.{name}" for name in COLUMNS)


@pytest.fixture
def pair(make_endpoint, sink, settings):
    """An endpoint of which one column is closed, and a good one; both want the same events."""

    def make(field):
        good = make_endpoint(f"{sink.url}/good")
        closed = make_endpoint(f"{sink.url}/closed")
        known, settings.MASTER_KEYS = settings.MASTER_KEYS, [Fernet.generate_key().decode()]
        value = FILLED.get(field, signing.new_secret()[0])
        Endpoint.objects.filter(pk=closed.pk).update(**{field: value})
        settings.MASTER_KEYS = known
        return good, closed

    return make


@pytest.mark.parametrize("place", places(), ids=str)
def test_lists_pages_and_answers_name_the_column_and_hide_no_other_row(place, pair, api, admin_client):
    good, closed = pair(place.field)
    assert sample(place, 10).closed == [closed.pk]
    listed = {row["id"]: row["unreadable"] for row in api.get("/api/v1/endpoints/").json()["results"]}
    assert listed == {str(good.pk): [], str(closed.pk): [place.field]}
    assert api.get(f"/api/v1/endpoints/{closed.pk}/").json()["unreadable"] == [place.field]
    assert api.get(f"/api/v1/endpoints/{closed.pk}/health/").status_code == 200
    page = admin_client.get(reverse("admin:delivery_endpoint_changelist")).content.decode()
    assert page.count("· unreadable") == 1
    shown = admin_client.get(reverse("admin:delivery_endpoint_change", args=[closed.pk])).content.decode()
    assert f"No master key opens its {place.field.replace('_', ' ')}" in shown
    assert admin_client.get("/").status_code == 200


@pytest.mark.parametrize("place", places(), ids=str)
def test_the_worker_sends_the_others_and_what_cannot_be_sent_waits_with_a_word(place, pair, drain):
    good, closed = pair(place.field)
    events.record("a.b", {}, subscriber="acme")
    drain()
    assert dict(Delivery.objects.values_list("endpoint_id", "state")) == {good.pk: "delivered", closed.pk: "pending"}
    assert list(Attempt.objects.values_list("endpoint_id", flat=True)) == [good.pk]
    health = EndpointHealth.objects.get(pk=closed.pk)
    assert (health.own_fault_kind, health.wait_reason) == ("unreadable_settings", "unusable")


@pytest.mark.parametrize("place", places(), ids=str)
def test_no_sweep_breaks(place, pair):
    _good, closed = pair(place.field)
    events.record("a.b", {}, subscriber="acme")
    Endpoint.objects.filter(pk=closed.pk).update(deleted_at=timezone.now())
    for sweep in (workers.rescue, workers.refresh_latency, workers.maintain):
        sweep()
    assert list(BrokenStep.objects.values_list("name", flat=True)) == []
