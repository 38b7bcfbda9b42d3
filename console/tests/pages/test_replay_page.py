"""The replay page: a preview, a warning for what would come twice, and nothing twice by pressing twice."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from console.models import Operation
from console.operations import engine
from console.tests.conftest import allow, make_delivery, make_endpoint
from delivery.models import Delivery, Endpoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint():
    """One that got two events three days ago."""
    endpoint = make_endpoint()
    for _ in range(2):
        make_delivery(endpoint, "delivered", delivered_at=timezone.now() - timedelta(days=3))
    return endpoint


@pytest.fixture
def post(operator, endpoint):
    client = Client()
    client.force_login(operator)
    path = f"/endpoints/{endpoint.pk}/replay/"

    def send(**form):
        return client.post(path, {"since": "1h", "reason": "lost at theirs", **form})

    send.client, send.path = client, path
    return send


def test_the_endpoints_page_leads_to_it_and_it_begins_nothing_by_itself(post, endpoint):
    page = post.client.get(f"/admin/delivery/endpoint/{endpoint.pk}/change/").content.decode()
    assert f'href="{post.path}"' in page
    assert 'value="24h"' in post.client.get(post.path).content.decode()
    assert "2 events would be sent" in post(do="preview").content.decode()
    assert not Operation.objects.exists()


def test_pressed_once_it_replays_pressed_twice_it_warns_first(post):
    assert post(do="replay").status_code == 302
    again = post(do="replay").content.decode()
    first = Operation.objects.get()
    assert f"Operation {first.pk}, which replays to this endpoint too, is not finished yet." in again
    engine.run_due()
    again = post(do="replay").content.decode()
    assert "2 of these already wait for this endpoint and will be sent once more." in again
    assert Operation.objects.count() == 1
    Delivery.objects.filter(is_replay=True).update(
        state="delivered", delivered_at=timezone.now() - timedelta(seconds=125), finished_at=timezone.now()
    )
    again = post(do="replay").content.decode()
    assert "2 of these were sent to it within the last day, the latest 2 minutes ago." in again
    assert Delivery.objects.filter(is_replay=True).count() == 2
    assert post(do="replay", knowing="1").status_code == 302
    engine.run_due()
    assert Delivery.objects.filter(is_replay=True).count() == 4


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"since": ""}, "name the time to replay from"),
        ({"since": "yesterday"}, "must be a time with its zone"),
        ({"types": "nothing.here"}, "No event of this time"),
    ],
)
def test_what_names_no_event_begins_nothing_and_says_why(post, form, words):
    assert words in post(do="replay", **form).content.decode()
    assert not Operation.objects.exists()


def test_it_needs_the_right_to_operate_and_to_change_endpoints(staff, endpoint):
    client, path = Client(), f"/endpoints/{endpoint.pk}/replay/"
    for permissions, status in ((), 403), (("console.add_operation",), 403), (("delivery.change_endpoint",), 200):
        client.force_login(allow(staff, *permissions))
        assert client.post(path, {"since": "1h", "do": "preview"}).status_code == status
    Endpoint.objects.update(deleted_at=timezone.now())
    assert client.get(path).status_code == 404
