"""Faults of our own in a row: counted, ended by anything that reached the receiver, and bounded."""

from datetime import UTC, datetime, timedelta

import pytest

from delivery.policy import own_faults
from delivery.policy.own_faults import NONE, Kind, OwnFaults, after_attempt

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_they_are_counted_and_an_attempt_that_reached_the_receiver_ends_them():
    faults = after_attempt(after_attempt(NONE, Kind.PROXY, NOW), Kind.PROXY, NOW + timedelta(seconds=5))
    assert faults == OwnFaults("egress_proxy", 2, NOW)
    assert after_attempt(faults, None, NOW) == NONE


def test_another_fault_begins_a_new_count_and_goes_on_from_the_same_moment():
    faults = after_attempt(OwnFaults("egress_proxy", 7, NOW), Kind.CLIENT_CERTIFICATE, NOW + timedelta(minutes=1))
    assert faults == OwnFaults("client_certificate", 1, NOW)


@pytest.mark.parametrize("kind", Kind)
def test_only_what_is_the_endpoints_own_holds_it(kind):
    own = kind in (Kind.CLIENT_CERTIFICATE, Kind.CA_CERTIFICATE)
    assert own_faults.needs_attention(OwnFaults(kind, 5, NOW)) is own
    assert not own_faults.needs_attention(OwnFaults(kind, 4, NOW))
    assert own_faults.hold_reason(OwnFaults(kind, 5, NOW)).startswith(own_faults.WORDS[kind][0])


def test_after_ten_minutes_the_breaker_opens():
    faults = OwnFaults("name_service", 9, NOW)
    assert not own_faults.opens_breaker(faults, NOW + timedelta(minutes=9))
    assert own_faults.opens_breaker(faults, NOW + timedelta(minutes=10))


def test_ten_minutes_of_it_are_few_tries():
    now, faults, tries = NOW, NONE, 0
    while not own_faults.opens_breaker(faults, now):
        faults = after_attempt(faults, Kind.RESOLVER, now)
        now += timedelta(seconds=own_faults.pause_seconds(faults, now))
        tries += 1
    assert tries <= 25


def test_an_unknown_rule_is_still_a_fault_of_ours():
    assert own_faults.kind_of("nonsense") is Kind.OTHER
