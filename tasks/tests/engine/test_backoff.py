"""A provider's hint may lengthen our wait; it undercuts it once at most."""

from datetime import UTC, datetime

import pytest

from kernel.retry_after import seconds_to_wait
from tasks.engine import backoff


def test_a_hint_is_taken_as_it_is_the_first_time():
    assert 30 <= backoff.hold_kind(1, 30.0) <= 31
    assert 0 < backoff.hold_kind(1, 0.0) <= 0.5


@pytest.mark.parametrize("told", [0.0, 0.1])
def test_at_once_again_and_again_does_not_undercut_our_own_backoff(told):
    for _ in range(200):
        assert 0.5 <= backoff.hold_kind(2, told) <= 2.5
    assert max(backoff.hold_kind(7, told) for _ in range(200)) > 10


def test_a_longer_hint_lengthens_it():
    assert backoff.hold_kind(3, 600.0) == 600.0
    assert backoff.before_fetch(1, 600.0) == 600.0
    assert backoff.before_fetch(1, 0.0) >= 0.5


def test_a_hint_as_a_date_is_understood():
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    assert seconds_to_wait("Fri, 01 May 2026 12:00:30 GMT", now) == 30.0
