"""A trial delivery: what it makes, who gets its proof, and that nothing of it stays."""

import uuid
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.utils import timezone

from console.health import trial
from delivery import endpoints, events
from delivery.endpoint_rules import InvalidEndpoint
from delivery.maintenance.accounting import account
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event
from delivery.policy import signing
from delivery.states import State
from delivery.tests.engine.conftest import LOOPBACK
from kernel import clock
from kernel.models import AuditEntry
from kernel.secrets import UndecryptableSecret

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:2/doctor/"


@pytest.fixture(autouse=True)
def loopback(settings):
    settings.DELIVERY_ALLOWED_NETWORKS = LOOPBACK


def begin(nonce=None):
    return trial.begin(nonce or trial.new_nonce(), URL, actor="doctor")


def rows():
    return [model.objects.count() for model in (Endpoint, EndpointHealth, Delivery, Event, Attempt)]


def test_it_is_one_event_to_one_endpoint_that_is_tried_once():
    begun = begin()
    endpoint = Endpoint.objects.get()
    assert rows() == [1, 1, 1, 1, 0]
    assert (endpoint.subscriber, endpoint.max_attempts) == ("roundtrip-doctor", 1)
    assert trial.outcome(begun).state == State.PENDING
    events.record("lead.created", {}, subscriber=trial.SUBSCRIBER)
    assert Delivery.objects.count() == 1  # it wants nothing but its test


def test_where_the_guard_refuses_the_address_nothing_is_made(settings):
    settings.DELIVERY_ALLOWED_NETWORKS = ()
    with pytest.raises(InvalidEndpoint):
        begin()
    assert rows() == [0, 0, 0, 0, 0]


def test_its_secret_is_told_by_its_name_alone_and_for_five_minutes(django_assert_num_queries):
    nonce = trial.new_nonce()
    begin(nonce)
    assert trial.secret_of(nonce) == Endpoint.objects.get().secret != ""
    with django_assert_num_queries(1):
        assert trial.secret_of("0" * 32) == ""
    with django_assert_num_queries(0):
        assert [trial.secret_of(name) for name in ("", "acknowledge", nonce.upper() + "x", f"{nonce}\n")] == [""] * 4
    Endpoint.objects.update(created_at=timezone.now() - timedelta(minutes=5, seconds=1))
    assert trial.secret_of(nonce) == ""


def test_an_endpoint_of_somebody_else_is_no_trial_whatever_its_name():
    nonce = trial.new_nonce()
    endpoints.create(actor="op", name=f"Trial {nonce}", subscriber="acme", url=URL)
    assert trial.secret_of(nonce) == ""
    assert trial.remove_all(actor="doctor") == 0
    assert Endpoint.objects.filter(deleted_at=None).count() == 1


def test_another_master_key_is_told_apart_from_no_trial(settings):
    nonce = trial.new_nonce()
    begin(nonce)
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(UndecryptableSecret):
        trial.secret_of(nonce)


def test_the_proof_is_of_this_secret_and_this_name():
    secret = signing.new_secret()[0]
    proofs = {trial.proof_of(secret, "a"), trial.proof_of(secret, "b"), trial.proof_of(signing.new_secret()[0], "a")}
    assert len(proofs) == 3 and all(len(proof) == 64 for proof in proofs)


@pytest.mark.parametrize("state", [State.PENDING, State.DELIVERED, State.DEAD_LETTER])
def test_all_of_it_is_removed_and_the_day_balances(state):
    other = endpoints.create(actor="op", name="Ours", subscriber="acme", url=URL, event_types=["*"])
    events.record("lead.created", {}, subscriber="acme")
    begun = begin()
    now = clock.now()
    Delivery.objects.filter(pk=begun.delivery_id).update(state=state, finished_at=now)
    Attempt.objects.create(
        delivery_id=begun.delivery_id, endpoint_id=begun.endpoint_id, number=1, outcome="delivered", started_at=now
    )
    assert trial.remove_all(actor="doctor") == 0
    assert rows() == [1, 1, 1, 1, 0]
    assert Endpoint.objects.get().pk == other.pk
    assert trial.outcome(begun) is None
    assert account(now.date()).balances
    verbs = AuditEntry.objects.filter(actor="doctor").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["create", "send_test", "remove"]


def test_what_is_in_the_air_is_marked_deleted_and_goes_with_the_next_call():
    begun = begin()
    leased = {"lease_token": uuid.uuid4(), "leased_until": timezone.now() + timedelta(minutes=1)}
    Delivery.objects.update(state=State.IN_FLIGHT, **leased)
    assert trial.remove_all(actor="doctor") == 1
    assert Endpoint.objects.get().state == "deleted"
    assert trial.outcome(begun).state == State.IN_FLIGHT
    assert trial.remove_all(actor="doctor") == 1  # still in the air, and not deleted twice
    assert AuditEntry.objects.filter(verb="delete").count() == 1
    Delivery.objects.update(state=State.DELIVERED, lease_token=None, leased_until=None, finished_at=timezone.now())
    assert trial.remove_all(actor="doctor") == 0
    assert rows() == [0, 0, 0, 0, 0]
