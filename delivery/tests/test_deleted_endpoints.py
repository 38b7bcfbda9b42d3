"""Dead letters of a deleted endpoint as people meet them: in the admin, in the analysis, in the commands."""

import html
import io
import json

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from delivery import dead_letters, endpoints
from delivery.models import Delivery, Endpoint
from delivery.tests import factories

pytestmark = pytest.mark.django_db
RIGHTS = ("view_endpoint", "view_delivery", "delete_endpoint", "discard_delivery", "redrive_delivery")


@pytest.fixture
def person(client, django_user_model):
    def make(*codenames):
        user = django_user_model.objects.create(username="ada", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return make


@pytest.fixture
def dead():
    return factories.delivery(
        factories.endpoint(subscriber="acme", name="old"), state="dead_letter", last_outcome="connection"
    )


@pytest.fixture
def other():
    return factories.endpoint(subscriber="acme", name="new")


def _address(endpoint_id, verb):
    return reverse("admin:delivery_endpoint_change", args=[endpoint_id]).replace("/change/", f"/{verb}/")


def _post(client, address, **values):
    answer = client.post(address, {"reason": "left", "confirmed": "yes", **values}, follow=True)
    return answer, html.unescape(answer.content.decode())


def test_the_page_that_asks_before_a_deletion_offers_the_three_ways_with_the_count(person, dead, other):
    factories.endpoint(subscriber="other", name="foreign")
    page = person(*RIGHTS).get(_address(dead.endpoint_id, "remove")).content.decode()
    assert "1 dead letter cannot be redriven any more: choose below." in page
    assert [f'value="{word}"' in page for word in ("keep", "discard", "move")] == [True] * 3
    assert f'<option value="{other.pk}">new #{other.pk}' in page
    assert "foreign" not in page


def test_a_way_without_its_right_is_not_offered_and_refused_when_posted(person, dead, other):
    client = person("view_endpoint", "delete_endpoint")
    page = client.get(_address(dead.endpoint_id, "remove")).content.decode()
    assert [f'value="{word}"' in page for word in ("keep", "discard", "move")] == [True, False, False]
    for values in ({"dead_letters": "discard"}, {"dead_letters": "move", "move_to": other.pk}):
        _, said = _post(client, _address(dead.endpoint_id, "remove"), **values)
        assert "Select a valid choice" in said
    assert Endpoint.objects.filter(deleted_at=None).count() == 2


@pytest.mark.parametrize(
    ("wish", "said", "state"),
    [
        ("keep", "0 waiting deliveries were cancelled.", "dead_letter"),
        ("discard", "1 dead letter was discarded.", "cancelled"),
        ("move", "1 dead letter was moved.", "cancelled"),
    ],
)
def test_each_way_does_what_it_says(person, dead, other, wish, said, state):
    client = person(*RIGHTS)
    values = {"dead_letters": wish, "move_to": other.pk if wish == "move" else ""}
    _, page = _post(client, _address(dead.endpoint_id, "remove"), **values)
    assert said in page
    dead.refresh_from_db()
    assert dead.state == state
    assert Delivery.objects.filter(endpoint=other).count() == (1 if wish == "move" else 0)


def test_moving_without_saying_where_is_asked_again(person, dead, other):
    _, page = _post(person(*RIGHTS), _address(dead.endpoint_id, "remove"), dead_letters="move", move_to="")
    assert "Say where to move them." in page
    assert Endpoint.objects.filter(deleted_at=None).count() == 2


def test_without_dead_letters_only_the_reason_is_asked(person):
    endpoint = factories.endpoint()
    client = person(*RIGHTS)
    assert 'name="dead_letters"' not in client.get(_address(endpoint.pk, "remove")).content.decode()
    _post(client, _address(endpoint.pk, "remove"))
    assert Endpoint.objects.get().deleted_at is not None


def test_what_was_kept_is_settled_on_the_deleted_endpoints_page(person, dead, other):
    endpoints.delete(dead.endpoint_id, actor="bob")
    client = person(*RIGHTS)
    page = client.get(reverse("admin:delivery_endpoint_change", args=[dead.endpoint_id])).content.decode()
    assert "/settle/" in page and "/remove/" not in page
    asked = client.get(_address(dead.endpoint_id, "settle")).content.decode()
    assert [f'value="{word}"' in asked for word in ("keep", "discard", "move")] == [False, True, True]
    _, said = _post(client, _address(dead.endpoint_id, "settle"), dead_letters="move", move_to=other.pk)
    assert "1 dead letter was moved." in said
    assert Delivery.objects.get(endpoint=other).event_id == dead.event_id


def test_its_delivery_says_that_it_is_kept_and_what_can_be_done(person, dead):
    endpoints.delete(dead.endpoint_id, actor="bob")
    page = person(*RIGHTS).get(reverse("admin:delivery_delivery_change", args=[dead.pk]))
    text = html.unescape(page.content.decode())
    assert dead_letters.KEPT in text and "If it is up, redrive" not in text
    assert "/redrive/" not in text and "/discard/" in text


def test_groups_and_analysis_give_no_advice_that_cannot_be_followed(dead):
    for _ in range(60):  # would be a cluster, with a redrive as its advice
        factories.delivery(dead.endpoint, state="dead_letter", last_outcome="rejected", last_status_code=401)
    live = factories.delivery(factories.endpoint(), state="dead_letter", last_outcome="connection")
    endpoints.delete(dead.endpoint_id, actor="bob")
    groups = dead_letters.groups(dead_letters.dead_letters())
    assert {group.what_to_do for group in groups if group.is_kept} == {dead_letters.KEPT}
    assert [group.endpoint for group in groups if not group.is_kept] == [live.endpoint_id]
    found = {one.endpoint: one for one in dead_letters.analyze(24, timezone.now())}
    assert (found[dead.endpoint_id].patterns, found[dead.endpoint_id].advice) == ([], [dead_letters.KEPT])
    assert "redrive" in found[live.endpoint_id].advice[0]


def test_the_redrive_command_says_what_it_leaves_out(dead):
    endpoints.delete(dead.endpoint_id, actor="bob")
    out, err = io.StringIO(), io.StringIO()
    call_command("redrive", "--all", "--json", stdout=out, stderr=err)
    assert json.loads(out.getvalue()) == {"matched": 0, "redriven": 0}
    assert err.getvalue().startswith("1 dead letter is left out: its endpoint was deleted. It can be discarded")
