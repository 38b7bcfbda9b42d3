"""Alerts about accounts: refused at once, held for long, and starts that were never answered."""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.alerts import account_rules, evaluate
from console.models import Alert
from tasks.accounts import limits
from tasks.models import ExternalJob, ProviderAccount, Task
from tasks.providers.base import ProviderDenied, ProviderError, ProviderThrottled, ProviderUnavailable
from tasks.states import JobState, State

pytestmark = pytest.mark.django_db


@pytest.fixture
def account() -> ProviderAccount:
    return ProviderAccount.objects.create(name="maps", adapter="sandbox")


def held(error: ProviderError, *minutes: float) -> None:
    """One failure at each of these times ago."""
    for ago in minutes:
        limits.hold("maps", error, timezone.now() - timedelta(minutes=ago))


def test_a_refused_account_is_told_at_once_with_since_when_and_what_to_press(account):
    held(ProviderDenied("401 bad key"), 9, 3)
    (found,) = account_rules.denied(timezone.now())
    account.refresh_from_db()
    assert (found.rule, found.subject, found.value) == ("account_denied", "account:maps", 2)
    assert f"{account.failing_since:%Y-%m-%d %H:%M:%S}" in found.detail and "401 bad key" in found.detail
    assert account.failing_since < timezone.now() - timedelta(minutes=8)
    assert "Resume" in found.advice and found.link
    assert account_rules.held(timezone.now()) == []


@pytest.mark.parametrize("error", [ProviderThrottled("slow down", 60.0), ProviderUnavailable("502")])
def test_a_held_account_is_told_once_it_has_lasted_ten_minutes(account, error):
    held(error, 9)
    assert account_rules.held(timezone.now()) == []
    held(error, 0)
    assert account_rules.held(timezone.now()) == []
    (found,) = account_rules.held(timezone.now() + timedelta(minutes=2))
    assert (found.subject, found.value) == ("account:maps", 2) and found.title.startswith("maps takes no work")
    assert account_rules.denied(timezone.now()) == []


def test_a_hold_that_was_over_long_ago_is_told_no_more(account):
    held(ProviderUnavailable("502"), 60)
    assert account_rules.held(timezone.now()) == []


def test_one_that_is_served_again_is_told_no_more(account):
    now = timezone.now()
    held(ProviderDenied("401"), 20)
    evaluate.evaluate(now)
    assert Alert.objects.get(rule="account_denied").state == "open"
    limits.release("maps", now)
    evaluate.evaluate(now)
    assert Alert.objects.get(rule="account_denied").state == "resolved"


def test_a_retired_account_is_nobodys_trouble(account):
    held(ProviderDenied("401"), 20)
    ProviderAccount.objects.update(retired_at=timezone.now())
    assert account_rules.denied(timezone.now()) == account_rules.held(timezone.now()) == []


def test_starts_that_were_never_answered_are_told_by_account(django_assert_num_queries):
    now = timezone.now()
    for account, waits in (("maps", True), ("maps", True), ("mail", True), ("maps", False)):
        task = Task.objects.create(
            kind="scoring", input={}, state=State.RUNNING, run_at=now, next_attempt_at=now, correlation_id="c"
        )
        ExternalJob.objects.create(
            task=task, provider=account, attempt=1, state=JobState.SUBMITTING, unanswered_at=now if waits else None
        )
    with django_assert_num_queries(1):
        found = account_rules.starts_unanswered(now)
    assert [(row.subject, row.title) for row in found] == [
        ("account:mail", "1 start at mail was never answered"),
        ("account:maps", "2 starts at maps were never answered"),
    ]
    assert "Start again" in found[0].advice and found[0].link.endswith("?start=unanswered")
