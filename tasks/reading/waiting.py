"""Why a task that waits does not run now: one word for programs, one sentence for people that says what to do.

What many tasks have in common (their kind's policy, its account, how many run) is looked up once, so a whole page of
them costs a few queries. Reads only.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property

from tasks import accounts, kinds
from tasks.engine import limits
from tasks.models import KindPolicy, ProviderAccount, SubscriberShare, Task
from tasks.reading import account_words
from tasks.reading.labels import moment
from tasks.states import State, Waiting

WAITS = (State.SCHEDULED, State.QUEUED, State.RETRYING)
Answer = tuple[Waiting, str]

_count_workers: Callable[[], int] | None = None


def when_workers_are_counted(count: Callable[[], int]) -> None:
    """A floor above, which keeps the heartbeats, says how many workers of tasks live."""
    global _count_workers
    _count_workers = count


class WhyWaiting:
    """Asked for each task of a page, at one moment."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._of_kind: dict[str, Answer | None] = {}
        self._running: dict[str, dict[str, int]] = {}

    def of(self, task: Task) -> Answer | None:
        """None where the task does not wait for its start."""
        if task.state not in WAITS:
            return None
        return self._of_itself(task) or self._common(task.kind) or self._of_subscriber(task) or self._next(task)

    def _of_itself(self, task: Task) -> Answer | None:
        if task.expires_at is not None and task.expires_at <= self._now:
            return Waiting.EXPIRED, f"It expired at {moment(task.expires_at)} and is about to be cancelled."
        if task.state == State.SCHEDULED and task.run_at > self._now:
            return Waiting.SCHEDULED, f"It is queued at {moment(task.run_at)}."
        if task.state == State.RETRYING and task.next_attempt_at > self._now:
            return Waiting.RETRY_AT, f"It is tried again at {moment(task.next_attempt_at)}, by itself."
        return None

    def _common(self, kind: str) -> Answer | None:
        if kind not in self._of_kind:
            policy = self._policies.get(kind) or KindPolicy(kind=kind)
            self._of_kind[kind] = self._held(policy) or self._full(policy)
        return self._of_kind[kind]

    @cached_property
    def _policies(self) -> dict[str, KindPolicy]:
        return {policy.kind: policy for policy in KindPolicy.objects.all()}

    def _held(self, policy: KindPolicy) -> Answer | None:
        kind = kinds.find(policy.kind)
        if kind is None:
            return (
                Waiting.KIND_GONE,
                f"No installed app brings the kind {policy.kind}. Install it again, or cancel the task.",
            )
        if policy.is_paused:
            return Waiting.KIND_PAUSED, "Its kind is paused: nothing new starts. Resume it in the kind's policy."
        return self._account(policy) if kind.is_external else None

    def _account(self, policy: KindPolicy) -> Answer | None:
        account = ProviderAccount.objects.filter(name=accounts.name_for(policy)).first()
        if account is None and policy.provider:
            words = (
                f"It is set to the account {policy.provider}, which there is not. Choose another in the kind's policy."
            )
            return Waiting.NO_ACCOUNT, words
        if account is None:
            return (
                Waiting.NO_ACCOUNT,
                "No provider account does its kind. Make one, or choose one in the kind's policy.",
            )
        words = account_words.why_held(account, self._now)
        if not words:
            return None
        if account.retired_at is not None:
            return Waiting.ACCOUNT_RETIRED, words
        return (Waiting.ACCOUNT_PAUSED if account.is_paused else Waiting.ACCOUNT_HELD), words

    def _full(self, policy: KindPolicy) -> Answer | None:
        if self._has_no_worker:
            return Waiting.NO_WORKER, "No worker for tasks is running. Start one; see docs/running.md."
        running = sum(self._running_of(policy.kind).values())
        if running >= policy.concurrency:
            return Waiting.LIMIT_FULL, (
                f"{running:,} of its kind run, as many as may at once. It starts when one of them ends, or when the "
                "limit in the kind's policy is raised."
            )
        if limits.is_out_of_tokens(policy, self._now):
            words = f"Its kind starts {policy.rate_per_minute:,} a minute and waits for its next turn, seconds away."
            return Waiting.RATE, words
        return None

    @cached_property
    def _has_no_worker(self) -> bool:
        return _count_workers is not None and not _count_workers()

    def _running_of(self, kind: str) -> dict[str, int]:
        if kind not in self._running:
            self._running[kind] = limits.busy_by_subscriber(kind)
        return self._running[kind]

    def _of_subscriber(self, task: Task) -> Answer | None:
        policy = self._policies.get(task.kind)
        if policy is None or not policy.has_shares:
            return None
        running = self._running_of(task.kind).get(task.subscriber, 0)
        if policy.subscriber_concurrency is not None and running >= policy.subscriber_concurrency:
            whose = task.subscriber or "nobody's subscriber"
            words = f"{running:,} tasks of {whose} run, as many as may at once. It starts when one of them ends."
            return Waiting.SUBSCRIBER_FULL, words
        if policy.subscriber_rate_per_minute is None:
            return None
        share = SubscriberShare.objects.filter(kind=task.kind, subscriber=task.subscriber).first()
        if limits.is_share_used(policy, share, self._now):
            words = f"Its subscriber starts {policy.subscriber_rate_per_minute:,} a minute and waits for its next turn."
            return Waiting.SUBSCRIBER_RATE, words
        return None

    def _next(self, task: Task) -> Answer:
        if task.state == State.SCHEDULED:
            return Waiting.NEXT, "Its time has come: it is queued within seconds."
        return Waiting.NEXT, "Nothing keeps it back: it starts within seconds, after those that are due before it."
