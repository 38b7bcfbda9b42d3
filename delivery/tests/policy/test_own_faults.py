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


def test_nothing_is_at_fault_at_first_and_nothing_changes_by_what_reached_the_receiver():
    assert OwnFaults(kind="", count=0, since=None) == NONE
    assert after_attempt(clean := OwnFaults("", 0, None), None, NOW) is clean
    assert after_attempt(NONE, Kind.PROXY, NOW) == OwnFaults("egress_proxy", 1, NOW)
    assert after_attempt(OwnFaults("egress_proxy", 1, NOW), None, NOW) == NONE
    assert after_attempt(OwnFaults("egress_proxy", 1, None), Kind.PROXY, NOW) == OwnFaults("egress_proxy", 2, NOW)


def test_more_than_five_still_need_attention():
    assert own_faults.needs_attention(OwnFaults(Kind.CA_CERTIFICATE, 6, NOW))


def test_one_fault_alone_opens_no_breaker_however_old():
    later = NOW + timedelta(hours=1)
    assert not own_faults.opens_breaker(OwnFaults("name_service", 1, NOW), later)
    assert own_faults.opens_breaker(OwnFaults("name_service", 2, NOW), later)
    assert not own_faults.opens_breaker(OwnFaults("name_service", 9, None), later)


@pytest.mark.parametrize(
    ("lasted", "pause"), [(-60, 1), (0, 1), (2, 1), (3, 1.5), (60, 30), (120, 60), (121, 60), (10_000, 60)]
)
def test_the_pause_is_half_as_long_as_it_has_lasted(lasted, pause):
    assert own_faults.pause_seconds(OwnFaults("name_service", 2, NOW), NOW + timedelta(seconds=lasted)) == pause


def test_the_pause_of_a_fault_without_a_beginning_is_a_second():
    assert own_faults.pause_seconds(NONE, NOW) == 1


@pytest.mark.parametrize("kind", Kind)
def test_the_reason_is_what_is_wrong_and_what_to_do(kind):
    title, advice = own_faults.WORDS[kind]
    assert own_faults.hold_reason(OwnFaults(kind, 5, NOW)) == f"{title}. {advice}"
    assert own_faults.kind_of(kind.value) is kind
