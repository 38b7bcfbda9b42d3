"""The alert rules of accounts at job providers: refused, held for long, and starts that were never answered."""

from datetime import datetime, timedelta

from django.db.models import Count, Min
from django.urls import NoReverseMatch, reverse

from console.alerts.findings import Finding
from tasks.external import unanswered
from tasks.models import ProviderAccount
from tasks.providers.base import ProviderDenied

HELD_TOO_LONG = timedelta(minutes=10)
STILL = timedelta(minutes=5)  # between one hold and the next nothing may be due that would try


def denied(_now: datetime) -> list[Finding]:
    """At once: nothing starts there until somebody acts."""
    rows = ProviderAccount.objects.filter(hold_reason=ProviderDenied.code, failure_count__gt=0, retired_at=None)
    return [
        Finding(
            "account_denied",
            f"account:{row.name}",
            f"{row.name} is not served: its provider refuses our account",
            f"Since {_since(row)}: {row.hold_text or 'it gives no reason.'} Nothing starts there; its tasks wait, and "
            "none fails for it.",
            "Put a valid key in the account, or settle what the provider asks for (payment, a block). Then press "
            "Resume on the account.",
            _page(row),
            row.failure_count,
        )
        for row in rows.order_by("name")
    ]


def held(now: datetime) -> list[Finding]:
    """For anything else than a refusal, once it has lasted."""
    rows = ProviderAccount.objects.filter(
        failing_since__lte=now - HELD_TOO_LONG, held_until__gt=now - STILL, retired_at=None
    )
    return [
        Finding(
            "account_held",
            f"account:{row.name}",
            f"{row.name} takes no work: {row.hold_reason.replace('_', ' ')}",
            f"Since {_since(row)}, {row.failure_count:,} calls in a row. Last: {row.hold_text or 'no words.'} It is "
            "tried again by itself; its tasks wait, and none fails for it.",
            "See at the provider whether it is up, and whether our limits there fit. Lower the account's starts a "
            "minute where it says that they are too many; Resume on the account tries at once.",
            _page(row),
            row.failure_count,
        )
        for row in rows.exclude(hold_reason=ProviderDenied.code).order_by("name")
    ]


def starts_unanswered(_now: datetime) -> list[Finding]:
    rows = unanswered.waiting().order_by().values("provider").annotate(starts=Count("pk"), since=Min("created_at"))
    return [
        Finding(
            "start_unanswered",
            f"account:{row['provider']}",
            f"{row['starts']:,} {'start' if row['starts'] == 1 else 'starts'} at {row['provider']} "
            f"{'was' if row['starts'] == 1 else 'were'} never answered",
            f"The first at {row['since']:%Y-%m-%d %H:%M:%S} UTC. Whether the provider took them nobody knows, and it "
            "cannot be asked. Made again by itself the work could be paid for twice, so the tasks wait.",
            "Look at the provider. Where the job is there, press “It is this job” on the task and give its id; where "
            "it is not, press “Start again”, for many in the list.",
            f"{reverse('admin:tasks_task_changelist')}?start=unanswered",
            row["starts"],
        )
        for row in rows.order_by("provider")
    ]


def _since(row: ProviderAccount) -> str:
    return f"{row.failing_since or row.held_since:%Y-%m-%d %H:%M:%S} UTC"


def _page(row: ProviderAccount) -> str:
    try:
        return reverse("admin:tasks_provideraccount_change", args=[row.pk])
    except NoReverseMatch:
        return reverse("admin:tasks_kindpolicy_changelist")
