"""Nothing waits for its turn behind what is no longer there: keys that change or go, dead letters that are pruned."""

import uuid
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from delivery import endpoints, events, lifecycle
from delivery.engine import waiting
from delivery.engine.claiming import Claimer
from delivery.maintenance import retention, sweeps
from delivery.maintenance.accounting import account
from delivery.models import Delivery, Endpoint
from delivery.states import AWAITS_TURN
from delivery.tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queue(db):
    """An endpoint in order by data.k: the first of four deliveries is a dead letter, the others parked."""

    def make(**values) -> Endpoint:
        endpoint = factories.endpoint(subscriber="acme", ordering_key="data.k", **values)
        events.record_many([events.NewEvent("a.b", {"k": "one", "n": n}, "acme") for n in range(4)])
        first = Delivery.objects.filter(endpoint=endpoint).earliest("id")
        Delivery.objects.filter(pk=first.pk).update(
            state="dead_letter", finished_at=timezone.now(), last_outcome="rejected"
        )
        assert Claimer().claim(50, uuid.uuid4())[0] == []
        assert _parked() == 3
        return endpoint

    return make


@pytest.fixture
def admin_client(client, django_user_model):
    client.force_login(django_user_model.objects.create(username="root", is_staff=True, is_superuser=True))
    return client


def _parked() -> int:
    return Delivery.objects.filter(state="pending", next_attempt_at__gte=AWAITS_TURN).count()


def _claimed() -> int:
    return len(Claimer().claim(50, uuid.uuid4())[0])


@pytest.mark.parametrize("key", ["", "data.n"])
def test_clearing_or_changing_an_ordering_key_releases_what_it_held(queue, key):
    endpoint = queue()
    endpoints.update(endpoint, {"ordering_key": key}, actor="ada")
    assert _parked() == 0
    assert _claimed() == 3


def test_over_the_api_and_in_the_form_alike(queue, api, admin_client):
    endpoint = queue()
    assert api.patch(f"/api/v1/endpoints/{endpoint.pk}/", {"ordering_key": ""}, format="json").status_code == 200
    assert _parked() == 0
    Delivery.objects.filter(state="pending").update(next_attempt_at=AWAITS_TURN, ordering_key="one")
    Endpoint.objects.update(ordering_key="data.k")
    page = f"/admin/delivery/endpoint/{endpoint.pk}/change/"
    form = admin_client.get(page).context["adminform"].form
    values = {name: field.value() for name, field in ((n, form[n]) for n in form.fields)}
    sent = {name: value for name, value in values.items() if value not in (None, False, [])} | {"ordering_key": ""}
    sent |= {"headers": "null", "body_rule": "null"}
    answer = admin_client.post(page, sent)
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    assert Endpoint.objects.get().ordering_key == "" and _parked() == 0


def test_the_same_key_again_changes_nothing(queue):
    endpoint = queue()
    endpoints.update(endpoint, {"ordering_key": "data.k", "name": "new"}, actor="ada")
    assert _parked() == 3 and _claimed() == 0


def test_a_pruned_dead_letter_lets_the_next_go_at_once(queue):
    queue()
    first = Delivery.objects.get(state="dead_letter")
    long_ago = timezone.now() - timedelta(days=400)
    Delivery.objects.filter(pk=first.pk).update(finished_at=long_ago)
    type(first.event).objects.filter(pk=first.event_id).update(created_at=long_ago)
    assert retention.prune(now=timezone.now()).dead_letters == 1
    assert _parked() == 2
    assert _claimed() == 1


def test_a_discarded_dead_letter_lets_the_next_go_at_once(queue):
    queue()
    assert lifecycle.discard([Delivery.objects.get(state="dead_letter").pk], actor="ada", reason="nobody wants it") == 1
    assert _parked() == 2 and _claimed() == 1


@pytest.mark.parametrize("how", ["no key", "no value", "nothing in front"])
def test_the_sweep_finds_whatever_is_parked_for_nothing(queue, how):
    endpoint = queue()
    if how == "no key":  # as a claim that was under way while the key went
        Endpoint.objects.filter(pk=endpoint.pk).update(ordering_key="")
    elif how == "no value":
        Delivery.objects.update(ordering_key="")
    else:
        Delivery.objects.filter(state="dead_letter").delete()
    sweeps._turns_seen = sweeps.FROM_THE_START
    assert sweeps.promote_strays(thoroughly=how == "no value") == (1 if how == "nothing in front" else 3)
    assert sweeps.promote_strays(thoroughly=True) == 0
    assert _claimed() == (1 if how == "nothing in front" else 3)


def test_the_sweep_comes_by_every_key_however_many_there_are(db, monkeypatch):
    monkeypatch.setattr(sweeps, "KEYS", 3)
    monkeypatch.setattr(sweeps, "ROUNDS", 2)
    sweeps._turns_seen = sweeps.FROM_THE_START
    for number in range(2):
        factories.endpoint(subscriber=f"s{number}", ordering_key="data.k")
        events.record_many([events.NewEvent("a.b", {"k": f"key {k}"}, f"s{number}") for k in range(11)])
    strays = Delivery.objects.filter(ordering_key="key 9")
    strays.update(next_attempt_at=AWAITS_TURN)
    found = [sweeps.promote_strays() for _ in range(5)]
    assert sum(found) == 2 and _parked() == 0
    assert found[0] == 0  # it lay beyond the first look


def test_a_waiting_turn_is_no_stray(queue):
    queue()
    sweeps._turns_seen = sweeps.FROM_THE_START
    assert sweeps.promote_strays(thoroughly=True) == 0
    assert waiting.parked_in_front(sweeps.FROM_THE_START, 100) == ([], None)


def test_account_says_what_is_parked_and_behind_what(queue, capsys):
    endpoint = queue()
    dead = Delivery.objects.get(state="dead_letter")
    result = account(timezone.now().date())
    (parked,) = result.parked
    assert (parked.endpoint, parked.count, parked.behind, parked.behind_state) == (
        endpoint.pk, 3, dead.pk, "dead_letter",
    )  # fmt: skip
    assert result.balances and result.lines[0].waiting == 3
    call_command("account")
    told = capsys.readouterr().out
    assert f"3 wait for their turn at endpoint {endpoint.pk} (hooks.example.com) behind delivery {dead.pk}" in told
    assert "Redrive or discard" in told
    Delivery.objects.filter(pk=dead.pk).update(state="cancelled")
    assert "nothing is in front of them" in str(account(timezone.now().date()).parked[0])


def test_no_page_and_no_answer_shows_the_year_9000(queue, api, admin_client):
    queue()
    row = Delivery.objects.filter(state="pending").latest("id")
    assert api.get(f"/api/v1/deliveries/{row.pk}/").json()["next_attempt_at"] is None
    page = admin_client.get(f"/admin/delivery/delivery/{row.pk}/change/").content.decode()
    assert "9000" not in page
    assert "In front of it: <a" in page and f"delivery {Delivery.objects.get(state='dead_letter').pk}</a>" in page
