"""How long an account is left alone: longer each time in a row, and what the provider said about it."""

from typing import Any

import pytest

from tasks.accounts import backoff


@pytest.fixture(params=["shortest", "longest"])
def drawn(request: Any, monkeypatch: Any) -> str:
    """Every draw is the least or the most that it may be."""
    choose = {"shortest": lambda least, _most: least, "longest": lambda _least, most: most}[request.param]
    monkeypatch.setattr(backoff._random, "uniform", choose)
    return request.param


@pytest.mark.parametrize(("failures", "most"), [(1, 1), (2, 2), (6, 32), (7, 60), (10**9, 60)])
def test_an_account_is_held_for_a_minute_at_most(drawn: str, failures: int, most: float) -> None:
    assert backoff.hold_account(failures) == 0.5 + (0 if drawn == "shortest" else most)


def test_an_account_is_held_as_long_as_the_provider_said_and_a_moment_more(drawn: str) -> None:
    assert 30.0 <= backoff.hold_account(1, told=30.0) <= 30.5


def test_a_hint_is_taken_as_it_is_the_first_time():
    assert 30 <= backoff.hold_account(1, 30.0) <= 31
    assert 0 < backoff.hold_account(1, 0.2) <= 0.7


def test_at_once_is_no_hint_and_leaves_our_own_wait(drawn: str) -> None:
    assert backoff.hold_account(1, 0.0) == backoff.hold_account(1)


@pytest.mark.parametrize("told", [0.0, 0.1])
def test_at_once_again_and_again_does_not_undercut_our_own_backoff(told):
    for _ in range(200):
        assert 0.5 <= backoff.hold_account(2, told) <= 2.5
    assert max(backoff.hold_account(7, told) for _ in range(200)) > 10


def test_a_longer_hint_lengthens_it():
    assert backoff.hold_account(3, 600.0) == 600.0


def test_a_refused_key_is_tried_again_after_half_a_minute_at_least(drawn: str) -> None:
    assert backoff.hold_account(1, is_denied=True) == 30 + (0 if drawn == "shortest" else 30)
    assert backoff.hold_account(100, 0.0, is_denied=True) == 30 + (0 if drawn == "shortest" else 300)
