"""How long the task side waits: full jitter up to a cap that doubles, and what a provider said about it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kernel.network.retry_after import seconds_to_wait
from tasks.engine import backoff


@pytest.fixture(params=["shortest", "longest"])
def drawn(request: Any, monkeypatch: Any) -> str:
    """Every draw is the least or the most that it may be."""
    choose = {"shortest": lambda least, _most: least, "longest": lambda _least, most: most}[request.param]
    monkeypatch.setattr(backoff._random, "uniform", choose)
    return request.param


@pytest.mark.parametrize(
    ("failed", "most"), [(0, 5), (1, 5), (2, 10), (3, 20), (8, 640), (9, 900), (40, 900), (10**9, 900)]
)
def test_a_new_attempt_waits_up_to_five_seconds_doubled_and_a_quarter_of_an_hour_at_most(
    drawn: str, failed: int, most: float
) -> None:
    assert backoff.before_attempt(failed) == (0 if drawn == "shortest" else most)


@pytest.mark.parametrize(("tries", "most"), [(1, 1), (2, 2), (9, 256), (10, 300), (10**9, 300)])
def test_a_fetch_is_never_tried_again_at_once(drawn: str, tries: int, most: float) -> None:
    assert backoff.before_fetch(tries) == 0.5 + (0 if drawn == "shortest" else most)


def test_a_fetch_waits_as_long_as_it_was_told_and_not_less_than_by_itself(drawn: str) -> None:
    own = backoff.before_fetch(3)
    assert backoff.before_fetch(3, told=120.0) == 120.0
    assert backoff.before_fetch(3, told=0.0) == own


@pytest.mark.parametrize(("failures", "most"), [(1, 1), (2, 2), (6, 32), (7, 60), (10**9, 60)])
def test_a_kind_is_held_for_a_minute_at_most(drawn: str, failures: int, most: float) -> None:
    assert backoff.hold_kind(failures) == 0.5 + (0 if drawn == "shortest" else most)


def test_a_kind_is_held_as_long_as_the_provider_said_and_a_moment_more(drawn: str) -> None:
    assert 30.0 <= backoff.hold_kind(1, told=30.0) <= 30.5


def test_waits_are_really_drawn() -> None:
    drawn = {backoff.before_attempt(8) for _ in range(20)}
    assert len(drawn) == 20 and max(drawn) <= 640


def test_a_hint_is_taken_as_it_is_the_first_time():
    assert 30 <= backoff.hold_kind(1, 30.0) <= 31
    assert 0 < backoff.hold_kind(1, 0.2) <= 0.7


def test_at_once_is_no_hint_and_leaves_our_own_wait(drawn: str) -> None:
    assert backoff.hold_kind(1, 0.0) == backoff.hold_kind(1)


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
