"""The doctor's event goes through a real drain to a real server; whatever answers there, the words say what it was."""

import pytest

from console.health import trial
from console.health.checks import Check
from console.health.doctor import event
from console.health.doctor.findings import NotTried
from console.tests.conftest import make_endpoint
from delivery.models import Delivery, Endpoint, Event
from delivery.tests.engine.conftest import LOOPBACK, drain  # noqa: F401 - a fixture
from kernel.network.openings import parse_openings
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def worker(settings, monkeypatch, drain):  # noqa: F811
    """While the doctor waits, a delivery worker does its turn, in this thread and so in this test's transaction."""
    settings.DELIVERY_ALLOWED_NETWORKS = LOOPBACK
    monkeypatch.setattr(event.time, "sleep", lambda _seconds: drain())


def found_at(settings, base):
    settings.PUBLIC_BASE_URL = base
    found = list(event.send_and_receive())
    assert Endpoint.objects.filter(subscriber=trial.SUBSCRIBER).count() == 0
    return found


def answered(settings, answer):
    with serving(answering(answer)) as server:
        (found,) = found_at(settings, server.url("").rstrip("/"))
        assert len(server.requests) == 1  # one attempt, whatever comes of it
    assert isinstance(found, Check) and not found.is_ok
    return found.words


@pytest.mark.django_db(transaction=True)
def test_a_worker_sends_it_the_door_verifies_it_and_nothing_of_it_stays(settings, live_server):
    standing = make_endpoint()
    (found,) = found_at(settings, live_server.url.replace("localhost", "127.0.0.1"))
    assert found.is_ok, found.words
    assert "it came in and verified" in found.words
    assert list(Endpoint.objects.values_list("pk", flat=True)) == [standing.pk]
    assert (Delivery.objects.count(), Event.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("200 OK", "Somebody else answers there"),
        ("404 Not Found", "another version of Roundtrip, or one on another database"),
        ("401 Unauthorized", "its signature did not verify there"),
        ("409 Conflict", "other MASTER_KEYS"),
        ("301 Moved", "never followed"),
        ("500 Oops", "fault of its own. (HTTP 500)"),
    ],
)
def test_an_answer_that_proves_nothing_is_a_fault_with_words(settings, status, words):
    assert words in answered(settings, hostile.response(status))


def test_a_closed_port_is_a_fault_of_the_way_there(settings):
    (found,) = found_at(settings, "http://127.0.0.1:2")
    assert not found.is_ok and "Can the workers' hosts reach PUBLIC_BASE_URL?" in found.words


def test_where_the_guard_does_not_allow_it_nothing_is_sent_and_the_words_say_what_to_add(settings):
    settings.DELIVERY_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    with serving(answering(hostile.OK)) as server:
        (found,) = found_at(settings, server.url("").rstrip("/"))
        assert server.connections == 0
    assert isinstance(found, NotTried)
    assert f"add roundtrip-doctor@<the address>/32:{server.port} to DELIVERY_ALLOWED_NETWORKS" in found.words


def test_a_worker_that_may_not_send_there_is_no_fault_either(settings, monkeypatch, drain):  # noqa: F811
    def narrow(_seconds):
        monkeypatch.setattr("delivery.tests.engine.conftest.LOOPBACK", ())
        drain()

    monkeypatch.setattr(event.time, "sleep", narrow)
    (found,) = found_at(settings, "http://127.0.0.1:2")
    assert isinstance(found, NotTried) and "the delivery workers may not send" in found.words


def test_without_a_worker_it_says_that_nobody_sent_it(settings, monkeypatch):
    monkeypatch.setattr(event, "PATIENCE_SECONDS", 0.0)
    (found,) = found_at(settings, "http://127.0.0.1:2")
    assert not found.is_ok and "No worker sent it" in found.words


def test_another_doctor_at_the_same_time_is_told(settings, monkeypatch):
    monkeypatch.setattr(event.time, "sleep", lambda _seconds: trial.remove_all(actor="the other"))
    (found,) = found_at(settings, "http://127.0.0.1:2")
    assert isinstance(found, NotTried) and "another doctor" in found.words


def test_ctrl_c_while_it_waits_leaves_nothing_behind(settings, monkeypatch):
    def interrupted(_seconds):
        assert Endpoint.objects.filter(subscriber=trial.SUBSCRIBER).count() == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(event.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found_at(settings, "http://127.0.0.1:2")
    assert (Endpoint.objects.count(), Delivery.objects.count(), Event.objects.count()) == (0, 0, 0)


def test_what_a_killed_one_left_is_removed_before_the_next_begins(settings):
    left = trial.begin(trial.new_nonce(), "http://127.0.0.1:2/", actor="doctor")
    found_at(settings, "http://127.0.0.1:2")
    assert trial.outcome(left) is None
