"""Which accounts' webhooks do not reach us: who noticed the ends of the last hour's jobs, account by account."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, Q

from kernel.database import windows
from tasks import accounts
from tasks.models import ExternalJob
from tasks.states import Cause, JobState

HOUR = timedelta(hours=1)
LEAST_OPEN = 10


@dataclass(frozen=True)
class Noticed:
    """Of an account whose adapter calls back. `silent`: the poll finished them, and no webhook ever came. `overdue`:
    open, beyond half of their time, without a word; counted where none of the hour's webhooks came from there."""

    account: str
    finished: int
    silent: int
    overdue: int

    @property
    def silent_percent(self) -> int:
        return round(100 * self.silent / self.finished) if self.finished else 0


def by_account(now: datetime) -> list[Noticed]:
    """Among the newest jobs that one look may read."""
    newest = ExternalJob.objects.order_by("-pk").values("pk")[: windows.MOST]
    recent = ExternalJob.objects.filter(pk__in=newest).order_by()
    ended = recent.filter(finished_at__gte=now - HOUR, finished_by__in=[Cause.WEBHOOK, Cause.POLL])
    silent = Q(finished_by=Cause.POLL, last_webhook_at=None)
    rows = ended.values_list("provider").annotate(finished=Count("pk"), silent=Count("pk", filter=silent))
    finished = {name: (number, without) for name, number, without in rows}
    open_at = recent.filter(state=JobState.SUBMITTED).values_list("provider", flat=True).distinct()
    names = sorted({*finished, *open_at})
    return [_noticed(name, *finished.get(name, (0, 0)), now) for name in names if _calls_back(name)]


def _calls_back(account: str) -> bool:
    adapter = accounts.known(account)
    return adapter is None or adapter.calls_back


def _noticed(account: str, finished: int, silent: int, now: datetime) -> Noticed:
    jobs = ExternalJob.objects.filter(provider=account)
    overdue = 0
    if not jobs.filter(last_webhook_at__gte=now - HOUR).exists():
        late = jobs.filter(state=JobState.SUBMITTED, last_webhook_at=None, task__deadline_at__isnull=False)
        beyond_half = late.annotate(gone=now - F("submitted_at"), left=F("task__deadline_at") - now)
        overdue = beyond_half.filter(gone__gt=F("left"))[:LEAST_OPEN].count()
    return Noticed(account, finished, silent, overdue)
