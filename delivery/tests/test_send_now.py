"""Send now, and a shorter schedule: a waiting delivery goes sooner, and never where it must not go."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from delivery import endpoints, lifecycle
from delivery.errors import WrongState
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.states import AWAITS_TURN
from delivery.tests import factories

pytestmark = pytest.mark.django_db


def _waiting(hours: float = 2, **values) -> Delivery:
    to = values.pop("to", None) or factories.endpoint(subscriber="acme")
    due = timezone.now() + timedelta(hours=hours)
    usual = {"state": "failed", "attempt_count": 2, "last_outcome": "server_error", "next_attempt_at": due}
    row = factories.delivery(to, **(usual | values))
    factories.attempt(row, 2, started_at=timezone.now() - timedelta(minutes=10), total_ms=5.0)
    return row


def _seconds(row: Delivery) -> float:
    """Until it is due."""
    row.refresh_from_db()
    return (row.next_attempt_at - timezone.now()).total_seconds()


def test_a_waiting_delivery_is_due_at_once(api):
    row = _waiting()
    answer = api.post(f"/api/v1/deliveries/{row.pk}/send-now/", {"reason": "they called"}, format="json")
    assert answer.status_code == 200, answer.content
    assert (answer.json()["state"], answer.json()["attempt_count"]) == ("failed", 2)
    assert _seconds(row) <= 0


def test_what_is_due_already_keeps_its_place():
    row = _waiting(hours=-1)
    lifecycle.send_now(row.pk, actor="ada")
    assert _seconds(row) < -3500


@pytest.fixture
def admin_client(client, django_user_model):
    client.force_login(django_user_model.objects.create(username="root", is_staff=True, is_superuser=True))
    return client


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("delivered", "It is delivered by now."),
        ("dead_letter", "redrive it instead"),
        ("cancelled", "given up on purpose"),
        ("in_flight", "It is being sent right now."),
    ],
)
def test_a_wrong_state_is_refused_in_words(api, state, says):
    leased = {"lease_token": "6f1d8a4e-1111-4222-8333-123456789abc", "leased_until": timezone.now()}
    row = factories.delivery(factories.endpoint(), state=state, **(leased if state == "in_flight" else {}))
    answer = api.post(f"/api/v1/deliveries/{row.pk}/send-now/", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
    assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ("paused_at", "Its endpoint is paused: resume it."),
        ("disabled_at", "then enable it"),
        ("attention_at", "then resume it"),
        ("deleted_at", "Its endpoint was deleted."),
    ],
)
def test_a_held_endpoint_holds_it(held, says):
    row = _waiting(to=factories.endpoint(**{held: timezone.now()}))
    with pytest.raises(WrongState, match=says):
        lifecycle.send_now(row.pk, actor="ada")
    assert _seconds(row) > 7_000


@pytest.mark.parametrize(
    ("health", "says"),
    [
        ({"throttled_until": timezone.now() + timedelta(hours=1)}, "The receiver asked us to wait until"),
        (
            {"throttled_until": timezone.now() + timedelta(hours=1), "wait_reason": "unusable"},
            "settings cannot be used",
        ),
        ({"throttled_until": timezone.now() + timedelta(hours=1), "wait_reason": "own_fault"}, "A fault on our side"),
        ({"breaker_state": "open", "probe_at": timezone.now() + timedelta(hours=1)}, "breaker is open; one probe"),
        ({"breaker_state": "half_open"}, "breaker is half open"),
    ],
)
def test_it_never_goes_past_a_breaker_or_a_wait_that_was_asked_for(health, says):
    row = _waiting(to=factories.endpoint(health=health))
    with pytest.raises(WrongState, match=says):
        lifecycle.send_now(row.pk, actor="ada")
    assert _seconds(row) > 7_000


def test_one_that_waits_its_turn_names_who_is_in_front():
    endpoint = factories.endpoint(ordering_key="data.k")
    dead = factories.delivery(endpoint, state="dead_letter", ordering_key="one")
    row = _waiting(to=endpoint, ordering_key="one", next_attempt_at=AWAITS_TURN)
    with pytest.raises(WrongState, match=rf"behind delivery {dead.pk}, which is dead letter: redrive or discard"):
        lifecycle.send_now(row.pk, actor="ada")


def test_who_may(client_with, client, django_user_model):
    theirs, mine = _waiting(to=factories.endpoint(subscriber="other")), _waiting()
    path = "/api/v1/deliveries/{}/send-now/"
    assert client_with("deliveries:read").post(path.format(mine.pk), {}, format="json").status_code == 403
    assert client_with(subscriber="acme").post(path.format(theirs.pk), {}, format="json").status_code == 404
    user = django_user_model.objects.create(username="ada", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_delivery"))
    client.force_login(user)
    page = f"/admin/delivery/delivery/{mine.pk}/send-now/"
    assert client.post(page, {"reason": ""}).status_code == 403
    assert _seconds(mine) > 7_000


def test_the_button(admin_client):
    row = _waiting()
    assert "Send now" in admin_client.get(f"/admin/delivery/delivery/{row.pk}/change/").content.decode()
    asked = admin_client.get(f"/admin/delivery/delivery/{row.pk}/send-now/")
    assert asked.status_code == 200 and _seconds(row) > 7_000  # asks first
    answer = admin_client.post(f"/admin/delivery/delivery/{row.pk}/send-now/", {"reason": ""}, follow=True)
    assert "was made due" in answer.content.decode() and _seconds(row) <= 0
    Endpoint.objects.update(paused_at=timezone.now())
    again = admin_client.post(f"/admin/delivery/delivery/{row.pk}/send-now/", {"reason": ""}, follow=True)
    assert "Its endpoint is paused: resume it." in again.content.decode()
    done = factories.delivery(row.endpoint, state="delivered")
    assert "send-now" not in admin_client.get(f"/admin/delivery/delivery/{done.pk}/change/").content.decode()


# --- a shorter schedule ---------------------------------------------------------------------------------------------


def test_a_shorter_schedule_moves_what_waits_forward(api):
    row = _waiting(to=factories.endpoint(subscriber="acme", retry_profile="custom", retry_delays=[86_400]))
    path = f"/api/v1/endpoints/{row.endpoint_id}/"
    assert api.patch(path, {"retry_delays": [1_200]}, format="json").status_code == 200
    # ten minutes since its last attempt, and twenty less or more a fifth from there
    assert 600 - 240 - 30 <= _seconds(row) <= 600 + 240
    assert api.patch(path, {"retry_delays": [60]}, format="json").status_code == 200
    assert -5 <= _seconds(row) <= 0  # long past: due now, and not before what waited longer


def test_by_how_often_it_has_failed():
    to = factories.endpoint(subscriber="acme", retry_profile="standard", max_attempts=10)
    early, late = _waiting(30, to=to, attempt_count=1), _waiting(30, to=to, attempt_count=7)
    endpoints.update(to, {"retry_profile": "custom", "retry_delays": [3_600, 7_200, 36_000]}, actor="ada")
    assert 0.8 * 3_600 - 630 <= _seconds(early) <= 1.2 * 3_600 - 600
    assert 0.8 * 36_000 - 630 <= _seconds(late) <= 1.2 * 36_000 - 600


def test_a_longer_schedule_moves_nothing():
    row = _waiting(0.1, to=factories.endpoint(retry_profile="custom", retry_delays=[360]))
    endpoints.update(row.endpoint, {"retry_delays": [86_400]}, actor="ada")
    assert 300 < _seconds(row) <= 360


def test_what_the_receiver_asked_for_keeps_its_time():
    to = factories.endpoint(retry_profile="custom", retry_delays=[86_400])
    told = _waiting(to=to, last_outcome="throttled", throttle_count=1)
    parked = _waiting(to=to, next_attempt_at=AWAITS_TURN, ordering_key="k")
    fresh = _waiting(to=to, attempt_count=0, state="pending")
    endpoints.update(to, {"retry_delays": [5]}, actor="ada")
    for row in (told, fresh):
        assert _seconds(row) > 7_000
    parked.refresh_from_db()
    assert parked.next_attempt_at == AWAITS_TURN


def test_a_row_without_a_known_attempt_waits_from_now_on():
    row = _waiting(48, to=factories.endpoint(retry_profile="custom", retry_delays=[86_400]))
    Attempt.objects.all().delete()
    endpoints.update(row.endpoint, {"retry_delays": [100]}, actor="ada")
    assert 75 <= _seconds(row) <= 120


def test_another_change_moves_nothing():
    row = _waiting(to=factories.endpoint(retry_profile="custom", retry_delays=[5]))
    endpoints.update(row.endpoint, {"name": "renamed", "retry_delays": [5]}, actor="ada")
    assert _seconds(row) > 7_000


def test_in_chunks(monkeypatch):
    from delivery.engine import waiting

    real = waiting.hasten
    monkeypatch.setattr(waiting, "hasten", lambda pk, schedule, after=0: real(pk, schedule, after=after, most=2))
    to = factories.endpoint(retry_profile="custom", retry_delays=[86_400])
    rows = [_waiting(to=to) for _ in range(5)]
    endpoints.update(to, {"retry_delays": [5]}, actor="ada")
    assert all(_seconds(row) <= 0 for row in rows)
    assert EndpointHealth.objects.count() == 1


# --- given up ---------------------------------------------------------------------------------------------------------


def test_discarding_keeps_the_last_error_beside_its_reason(api, admin_client):
    row = factories.delivery(
        factories.endpoint(), state="dead_letter", last_error="HTTP 503", last_outcome="server_error"
    )
    body = api.post(f"/api/v1/deliveries/{row.pk}/discard/", {"reason": "the customer left"}, format="json").json()
    assert (body["state"], body["last_error"], body["cancel_reason"]) == ("cancelled", "HTTP 503", "the customer left")
    page = admin_client.get(f"/admin/delivery/delivery/{row.pk}/change/").content.decode()
    assert "Given up: the customer left" in page and "Last error: HTTP 503" in page
    nameless = factories.delivery(factories.endpoint())
    lifecycle.discard([nameless.pk], actor="ada", reason="")
    nameless.refresh_from_db()
    assert nameless.cancel_reason == "by ada"


def test_numbers_and_cycles_are_shown(api, admin_client):
    delivery = factories.delivery(factories.endpoint(), state="failed", try_count=3, redrive_count=1)
    factories.attempt(delivery, 1, outcome="throttled", status_code=429)
    factories.attempt(delivery, 2, outcome="rescued")
    factories.attempt(delivery, 3, cycle=1)
    rows = api.get(f"/api/v1/deliveries/{delivery.pk}/attempts/").json()["results"]
    assert [(row["number"], row["cycle"]) for row in rows] == [(1, 0), (2, 0), (3, 1)]
    assert api.get(f"/api/v1/deliveries/{delivery.pk}/").json()["try_count"] == 3
    page = admin_client.get(f"/admin/delivery/delivery/{delivery.pk}/change/").content.decode()
    assert "Attempt 2" in page and "Attempt 3, after 1 redrive" in page
