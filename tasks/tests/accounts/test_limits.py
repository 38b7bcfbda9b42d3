"""Limits of an account: pause, hold, open jobs, starts and calls a minute, whatever kind they are for."""

from datetime import timedelta
from typing import Any

import pytest

from kernel.network.openings import parse_openings
from tasks import accounting as verbs
from tasks import accounts
from tasks.accounts import limits
from tasks.engine import clock
from tasks.external import starting
from tasks.models import KindPolicy, ProviderAccount, Task
from tasks.providers.base import ProviderDenied, ProviderThrottled
from tasks.states import State
from tasks.submit import submit, submit_batch

pytestmark = [pytest.mark.usefixtures("unreachable_sandbox"), pytest.mark.django_db]
ITEM = {"input": {"business": {"name": "Bar"}}}
EMAIL = {"input": {"business": {"name": "Bar"}}}


def claimed(calls: int, now: Any, kind: str = "scoring") -> int:
    return sum(len(start.jobs) for start in starting.claim(kind, calls, now))


def set_to(**fields: Any) -> None:
    accounts.get("sandbox")
    ProviderAccount.objects.filter(name="sandbox").update(**fields)


def start_once(now: Any) -> None:
    """Claim one start, call the provider, settle."""
    (start,) = starting.claim("scoring", 1, now)
    starting.settle(start, starting.call(start), now)


def test_a_hold_ends_as_told(now: Any) -> None:
    submit_batch("scoring", [ITEM], caller="t")
    seconds = limits.hold("sandbox", ProviderThrottled("slowly", 30.0), now)
    assert 30 <= seconds <= 31
    assert claimed(1, now + timedelta(seconds=29)) == 0
    assert claimed(1, now + timedelta(seconds=31)) == 1


def test_a_start_that_the_provider_cannot_take_holds_the_account_and_one_that_works_releases_it(
    sandbox_process: Any, settings: Any
) -> None:
    KindPolicy.objects.create(kind="scoring", batch_size=1)
    submit_batch("scoring", [ITEM] * 2, caller="t")
    now = clock.now()
    start_once(now)  # nothing listens there
    account = ProviderAccount.objects.get()
    assert account.failure_count == 1 and account.held_until > now
    assert account.hold_reason == "provider_unavailable" and account.hold_text
    assert claimed(1, now) == 0 and Task.objects.filter(state=State.RUNNING).count() == 0
    start_once(account.held_until)
    again = ProviderAccount.objects.get()
    assert again.failure_count == 2 and again.held_until > account.held_until

    settings.SANDBOX_PROVIDER_URL = sandbox_process.url
    settings.PROVIDER_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    sandbox_process.reset()
    start_once(again.held_until)
    account = ProviderAccount.objects.get()
    assert (account.failure_count, account.held_until, account.hold_reason, account.hold_text) == (0, None, "", "")
    assert claimed(1, again.held_until + timedelta(minutes=1)) == 1
    assert sandbox_process.stats()["jobs"] == 1


def test_a_shorter_hold_never_ends_a_longer_one(now: Any) -> None:
    accounts.get("sandbox")
    limits.hold("sandbox", ProviderThrottled("slowly", 300.0), now)
    limits.hold("sandbox", ProviderThrottled("slowly", 1.0), now)
    assert ProviderAccount.objects.get().held_until >= now + timedelta(seconds=300)


def test_a_hold_is_for_every_kind_of_the_account(now: Any) -> None:
    submit_batch("scoring", [ITEM], caller="t")
    submit_batch("email_generation", [EMAIL], caller="t")
    limits.hold("sandbox", ProviderThrottled("slowly", 30.0), now)
    assert claimed(1, now) == claimed(1, now, "email_generation") == 0
    assert claimed(1, now + timedelta(seconds=32), "email_generation") == 1


def test_a_start_that_was_in_the_air_when_the_hold_came_does_not_lift_it(now: Any) -> None:
    set_to()
    limits.hold("sandbox", ProviderThrottled("slowly", 300.0), now)
    limits.release("sandbox", now - timedelta(seconds=1))
    assert ProviderAccount.objects.get().held_until >= now + timedelta(seconds=300)
    limits.release("sandbox", now + timedelta(seconds=301))
    account = ProviderAccount.objects.get()
    assert (account.held_until, account.failure_count, account.hold_reason) == (None, 0, "")


def test_a_key_that_is_refused_is_not_asked_again_at_once(now: Any) -> None:
    set_to()
    assert limits.hold("sandbox", ProviderDenied("no"), now) >= 30


def test_open_jobs_of_all_kinds_count_together(make_task: Any, now: Any) -> None:
    set_to(concurrency=3)
    submit_batch("scoring", [ITEM] * 2, caller="t")
    submit_batch("email_generation", [EMAIL] * 2, caller="t")
    assert claimed(5, clock.now()) == 2
    assert claimed(5, clock.now(), "email_generation") == 1
    assert Task.objects.filter(state=State.RUNNING).count() == 3


def test_starts_and_calls_a_minute_are_shared_by_all_kinds(now: Any) -> None:
    set_to(starts_per_minute=60)
    for kind in ("scoring", "email_generation"):
        submit_batch(kind, [ITEM] * 20, caller="t")
    at = clock.now()
    assert claimed(20, at) == 10 and claimed(20, at, "email_generation") == 0
    assert claimed(20, at + timedelta(seconds=5), "email_generation") == 5
    set_to(starts_per_minute=None, calls_per_minute=60)
    later = at + timedelta(minutes=1)
    assert limits.take_calls("sandbox", later, 7) == 7
    assert limits.take_calls("sandbox", later, 7) == 3
    assert limits.take_calls("sandbox", later, 7) == 0
    assert claimed(5, later) == 0


def test_a_paused_account_starts_nothing_and_resume_ends_a_hold_too(now: Any) -> None:
    submit("scoring", ITEM["input"], caller="t")
    assert verbs.pause("sandbox", actor="user:1:ada", reason="window")
    assert not verbs.pause("sandbox", actor="user:1:ada")
    assert claimed(1, clock.now()) == 0
    limits.hold("sandbox", ProviderThrottled("slowly", 300.0), clock.now())
    assert verbs.resume("sandbox", actor="user:1:ada")
    assert not verbs.resume("sandbox", actor="user:1:ada")
    assert claimed(1, clock.now()) == 1
