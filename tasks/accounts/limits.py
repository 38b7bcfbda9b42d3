"""How much an account may do now: pause, hold, open jobs, starts and calls a minute, all in the account's own row.

A hold is ours: the provider could not take a call, and the account starts nothing for a while that grows. It ends by
itself. A pause is a person's. The row is locked before it is counted, and always after the kind's own.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction

from kernel.live_hints import touched
from kernel.token_bucket import Bucket, Rate, take
from tasks.accounts import backoff
from tasks.models import ExternalJob, ProviderAccount
from tasks.providers.base import ProviderDenied, ProviderError, ProviderThrottled
from tasks.states import JobState

BURST_SECONDS = 10  # so much of a rate may be used at once
MOST_FAILURES = 1000
HELD = ("failing_since", "held_since", "held_until", "hold_reason", "hold_text")
STOPS_ALL = (ProviderThrottled.code, ProviderDenied.code)
OPEN = (JobState.SUBMITTING, JobState.SUBMITTED)


def locked(name: str) -> ProviderAccount | None:
    """The account's row, locked until the transaction ends."""
    return ProviderAccount.objects.select_for_update(no_key=True).filter(name=name).first()


def room(account: ProviderAccount, now: datetime, wanted: int) -> int:
    """How many jobs may start there now, of `wanted`. `account` is locked."""
    if account.is_paused or account.retired_at is not None or account.is_held(now):
        return 0
    if account.concurrency is not None:
        wanted = min(wanted, max(0, account.concurrency - _open_jobs(account)))
    if (rate := _rate(account.starts_per_minute)) is not None:
        wanted = take(Bucket(account.start_tokens, account.start_tokens_at), rate, now, wanted)[0]
    return wanted


def _open_jobs(account: ProviderAccount) -> int:
    return ExternalJob.objects.filter(provider=account.name, state__in=OPEN).count()


def calls_left(account: ProviderAccount, now: datetime, wanted: int) -> int:
    """How many calls of any sort may be made now, of `wanted`. `account` is locked."""
    rate = _rate(account.calls_per_minute)
    if rate is None:
        return wanted
    return take(Bucket(account.call_tokens, account.call_tokens_at), rate, now, wanted)[0]


def spend(account: ProviderAccount, now: datetime, *, starts: int = 0, calls: int = 0) -> None:
    """Take the tokens of what was begun. `account` is locked."""
    changed = []
    if starts and (rate := _rate(account.starts_per_minute)) is not None:
        _, bucket = take(Bucket(account.start_tokens, account.start_tokens_at), rate, now, starts)
        account.start_tokens, account.start_tokens_at = bucket.tokens, bucket.tokens_at
        changed += ["start_tokens", "start_tokens_at"]
    if calls and (rate := _rate(account.calls_per_minute)) is not None:
        _, bucket = take(Bucket(account.call_tokens, account.call_tokens_at), rate, now, calls)
        account.call_tokens, account.call_tokens_at = bucket.tokens, bucket.tokens_at
        changed += ["call_tokens", "call_tokens_at"]
    if changed:
        account.save(update_fields=changed)


def take_calls(name: str, now: datetime, wanted: int) -> int:
    """How many calls (polls, fetches, cancels) may be made now, of `wanted`; they are taken.

    A held account is asked on, but not hammered: a hold for too many calls or a refused key stops those too.
    """
    with transaction.atomic():
        account = locked(name)
        if account is None:
            return wanted
        if account.is_held(now) and account.hold_reason in STOPS_ALL:
            return 0
        granted = calls_left(account, now, wanted)
        spend(account, now, calls=granted)
    return granted


def asked_again_at(name: str, due: datetime | None) -> datetime | None:
    """When what is due then can be asked for: not while a hold stops every call."""
    stop = ProviderAccount.objects.filter(name=name, hold_reason__in=STOPS_ALL).values_list("held_until", flat=True)
    held = stop.first() if due is not None else None
    return max(due, held) if due is not None and held is not None else due


def _rate(per_minute: int | None) -> Rate | None:
    return Rate(per_minute, max(1.0, per_minute * BURST_SECONDS / 60)) if per_minute is not None else None


def hold(name: str, error: ProviderError, now: datetime) -> float:
    """The provider could not take a call: the whole account waits, longer each time in a row. Returns the seconds."""
    with transaction.atomic():
        account = locked(name)
        if account is None:
            return 0.0
        account.failure_count = min(account.failure_count + 1, MOST_FAILURES)
        seconds = backoff.hold_account(
            account.failure_count, error.retry_after, is_denied=isinstance(error, ProviderDenied)
        )
        account.failing_since = account.failing_since or now
        account.held_since = now
        account.held_until = max(account.held_until or now, now + timedelta(seconds=seconds))
        account.hold_reason, account.hold_text = error.code[:60], error.detail[:300]
        account.save(update_fields=["failure_count", *HELD])
        touched("stats")
    return seconds


def hold_all(name: str, errors: Iterable[ProviderError], begun_at: datetime, now: datetime) -> None:
    """Polls, fetches and cancels hold the account too where they were too many or our key was refused: once for what
    was in the air together, and not again for what was begun before the hold."""
    told = [error for error in errors if isinstance(error, ProviderThrottled | ProviderDenied)]
    if not told or ProviderAccount.objects.filter(name=name, held_since__gte=begun_at, held_until__gt=now).exists():
        return
    hold(name, max(told, key=lambda error: error.retry_after or 0.0), now)


def release(name: str, begun_at: datetime) -> None:
    """A start went through that was begun after the hold: the provider takes work again. A start that was in the air
    when the hold came says nothing of it. Costs no row where nothing was held."""
    held = ProviderAccount.objects.filter(name=name, failure_count__gt=0, held_since__lt=begun_at)
    held.update(failure_count=0, failing_since=None, held_since=None, held_until=None, hold_reason="", hold_text="")
