"""Removing an endpoint by the API says what becomes of its dead letters, and needs the right for each of them."""

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from delivery.models import Delivery, Endpoint
from delivery.tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def dead():
    return factories.delivery(factories.endpoint(subscriber="acme"), state="dead_letter")


@pytest.fixture
def other():
    return factories.endpoint(subscriber="acme")


def _delete(client, endpoint_id, query=""):
    return client.delete(f"/api/v1/endpoints/{endpoint_id}/{query}")


def test_a_removal_without_a_word_keeps_them(client_with, dead):
    assert _delete(client_with("endpoints:write"), dead.endpoint_id).status_code == 204
    assert Delivery.objects.get().state == "dead_letter"


def test_a_removal_discards_them(api, dead):
    assert _delete(api, dead.endpoint_id, "?dead_letters=discard&reason=left").status_code == 204
    assert (Delivery.objects.get().state, Delivery.objects.get().cancel_reason) == ("cancelled", "left")


def test_a_removal_moves_them(api, dead, other):
    assert _delete(api, dead.endpoint_id, f"?dead_letters=move&move_to={other.pk}").status_code == 204
    moved = Delivery.objects.get(endpoint=other)
    assert (moved.event_id, moved.state) == (dead.event_id, "pending")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?dead_letters=", "dead_letters"),
        ("?dead_letters=forget", "dead_letters"),
        ("?dead_letter=discard", "dead_letter"),
        ("?dead_letters=move", "move_to"),
        ("?dead_letters=move&move_to=", "move_to"),
        ("?dead_letters=move&move_to=x", "move_to"),
        ("?dead_letters=move&move_to=999999999", "move_to"),
        ("?move_to=1", "move_to"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_by_its_field_and_nothing_is_removed(api, dead, query, field):
    answer = _delete(api, dead.endpoint_id, query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert Endpoint.objects.get().deleted_at is None


def test_another_subscribers_endpoint_is_told_like_none(client_with, dead):
    theirs = factories.endpoint(subscriber="other")
    answer = _delete(client_with(subscriber="acme"), dead.endpoint_id, f"?dead_letters=move&move_to={theirs.pk}")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "unknown_endpoint")
    assert not Delivery.objects.filter(endpoint=theirs).exists()


@pytest.mark.parametrize("wish", ["discard", "move"])
def test_a_key_that_may_not_touch_deliveries_may_only_keep_them(client_with, dead, other, wish):
    client = client_with("endpoints:write", "deliveries:read")
    to = f"&move_to={other.pk}" if wish == "move" else ""
    answer = _delete(client, dead.endpoint_id, f"?dead_letters={wish}{to}")
    assert (answer.status_code, answer.json()["code"]) == (403, "missing_scope")
    assert Endpoint.objects.filter(deleted_at=None).count() == 2
    Endpoint.objects.filter(pk=dead.endpoint_id).update(deleted_at=timezone.now())
    body = {"dead_letters": wish, **({"move_to": str(other.pk)} if wish == "move" else {})}
    answer = client.post(f"/api/v1/endpoints/{dead.endpoint_id}/settle-dead-letters/", body, format="json")
    assert answer.status_code == 403
    assert Delivery.objects.get().state == "dead_letter"


@pytest.mark.parametrize(("right", "wish"), [("discard_delivery", "discard"), ("redrive_delivery", "move")])
def test_a_console_user_needs_the_right_for_one_of_them(client, django_user_model, dead, other, right, wish):
    user = django_user_model.objects.create(username="ada", is_staff=True)
    names = ["view_delivery", "change_endpoint", "delete_endpoint", "discard_delivery", "redrive_delivery"]
    client.force_login(user)
    to = f"&move_to={other.pk}" if wish == "move" else ""
    for codenames, status in (([name for name in names if name != right], 403), (names, 204)):
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        assert _delete(client, dead.endpoint_id, f"?dead_letters={wish}{to}").status_code == status


def test_what_was_kept_is_settled_later(api, dead, other):
    address = f"/api/v1/endpoints/{dead.endpoint_id}/settle-dead-letters"
    body = {"dead_letters": "move", "move_to": str(other.pk)}
    live = api.post(address, body, format="json")
    assert (live.status_code, live.json()["code"]) == (409, "wrong_state")
    _delete(api, dead.endpoint_id)
    answer = api.post(address + "/", body, format="json")
    assert answer.json() == {"discarded": 0, "moved": 1, "had_already": 0, "is_done": True}
    assert api.post(address, {"dead_letters": "keep"}, format="json").status_code == 400
    assert api.post(address, body, format="json").json()["moved"] == 0


def test_redriving_one_of_a_deleted_endpoint_says_what_can_be_done(api, dead):
    _delete(api, dead.endpoint_id)
    answer = api.post(f"/api/v1/deliveries/{dead.pk}/redrive/")
    assert (answer.status_code, answer.json()["code"]) == (409, "endpoint_deleted")
    assert "moved to another endpoint" in answer.json()["detail"]
