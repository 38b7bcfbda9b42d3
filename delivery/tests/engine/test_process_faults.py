"""A process that fails on everything charges nobody, stops claiming, and says why. On real sockets and rows."""

from __future__ import annotations

import pytest
import structlog
from django.utils import timezone

from delivery import events
from delivery.engine import drain as module
from delivery.engine.claiming import Claimer
from delivery.models import Delivery, EndpointHealth
from delivery.tests.engine.flights import names_of

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "what an error may quote".replace(" ", "-")


def due_again(claimer: Claimer | None = None) -> None:
    EndpointHealth.objects.update(throttled_until=None)
    Delivery.objects.filter(state="failed").update(next_attempt_at=timezone.now())
    if claimer is not None:  # its pause is over
        claimer.faults.building.until = claimer.faults.judging.until = 0.0


def broken(*_arguments, **_more):
    raise UnicodeEncodeError("ascii", SECRET, 0, 1, "ordinal not in range")


@pytest.mark.parametrize("what", ["build", "judge"])
def test_a_fault_that_meets_every_row_makes_no_dead_letter_and_stops_the_claims(
    make_endpoint, sink, drain, monkeypatch, what
):
    for number in range(3):
        make_endpoint(f"{sink.url}/{number}", subscriber=f"s{number}")
        events.record_many([events.NewEvent("a.b", {}, f"s{number}") for _ in range(4)])
    monkeypatch.setattr("delivery.engine.tracebacks._told", set())
    claimer = Claimer()
    with monkeypatch.context() as sick, structlog.testing.capture_logs() as lines:
        sick.setattr(module, what, broken)
        for _ in range(8):
            drain(claimer=claimer)
            assert drain(claimer=claimer).claimed == 0  # not before its pause is over
            due_again(claimer)
    assert Delivery.objects.filter(state__in=("pending", "failed"), rescue_count__lte=1, attempt_count=0).count() == 12
    assert sum("frames" in line for line in lines) == 1
    assert SECRET not in str(lines)
    assert "claiming_stopped" in {line["event"] for line in lines}
    due_again(claimer)
    while drain(claimer=claimer).claimed:
        pass
    assert Delivery.objects.filter(state="delivered").count() == 12
    assert not EndpointHealth.objects.filter(own_fault_count__gt=0).exists()


def test_one_endpoint_alone_in_a_process_where_nothing_has_passed_is_not_charged(
    make_endpoint, sink, drain, monkeypatch
):
    make_endpoint(sink.url + "/")
    events.record("a.b", {}, subscriber="acme")
    monkeypatch.setattr(module, "build", broken)
    claimer = Claimer()
    for _ in range(7):
        drain(claimer=claimer)
        due_again()
    row = Delivery.objects.get()
    assert (row.state, row.rescue_count, row.attempt_count) == ("failed", 0, 0)


def test_a_row_that_fails_where_others_pass_is_poison_after_five_tries(make_endpoint, sink, drain, monkeypatch):
    make_endpoint(sink.url + "/")
    events.record_many([events.NewEvent("a.b", {}, "acme", uid=uid) for uid in ("good", "bad")])
    real = module.build
    monkeypatch.setattr(module, "build", lambda claimed: broken() if claimed.uid == "bad" else real(claimed))
    claimer = Claimer()
    for _ in range(5):
        drain(claimer=claimer)
        due_again()
    assert Delivery.objects.get(event__uid="bad").last_outcome == "poison"
    assert Delivery.objects.get(event__uid="good").state == "delivered"


def test_a_handle_that_cannot_be_made_while_names_are_awaited_takes_no_others_results_along(monkeypatch):
    from delivery.engine.transport.messages import Request
    from delivery.tests.engine.flights import flying, land

    monkeypatch.setattr("delivery.engine.transport.transfer.Handle", broken)
    with flying(names_of(lambda host: ["127.0.0.1"])) as transfers:
        transfers.add(Request("http://receiver.example/", key=1))
        (result,) = land(transfers)
    assert (result.failure, result.rule) == ("own_fault", "worker_process")
