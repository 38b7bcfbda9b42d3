"""Durable work: tasks, batches, the external jobs that carry them out, the accounts they run at, and the log of it.

State columns are written only by `tasks.engine.lifecycle`; nothing here decides anything.
"""

from tasks.models.accounts import ProviderAccount
from tasks.models.followups import FollowUp
from tasks.models.jobs import ExternalJob, KeptAnswer
from tasks.models.limits import (
    MAX_ATTEMPTS,
    MAX_BATCH,
    MAX_CONCURRENCY,
    MAX_MEMORY_MB,
    MAX_RATE_PER_MINUTE,
    MAX_TIMEOUT_SECONDS,
    SMALL_MOST,
)
from tasks.models.policies import KindPolicy, SubscriberShare
from tasks.models.schedules import Schedule, ScheduleRun
from tasks.models.work import HOLDS_KEY, Batch, Task, Transition

__all__ = [
    "HOLDS_KEY",
    "MAX_ATTEMPTS",
    "MAX_BATCH",
    "MAX_CONCURRENCY",
    "MAX_MEMORY_MB",
    "MAX_RATE_PER_MINUTE",
    "MAX_TIMEOUT_SECONDS",
    "SMALL_MOST",
    "Batch",
    "ExternalJob",
    "FollowUp",
    "KeptAnswer",
    "KindPolicy",
    "ProviderAccount",
    "Schedule",
    "ScheduleRun",
    "SubscriberShare",
    "Task",
    "Transition",
]
