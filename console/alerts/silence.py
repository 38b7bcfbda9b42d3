"""Accounts whose webhooks stay away: work goes on by the poll, a minute late."""

from datetime import datetime

from django.urls import reverse

from console.alerts.findings import Finding
from tasks.reading import noticed

SHARE_PERCENT, LEAST_JOBS = 20, 10
ADVICE = (
    "Check that PUBLIC_BASE_URL leads to us from outside (`manage.py doctor`), that the provider has this address and "
    "the secret that the account has, and what the inbox refused."
)


def silent_webhooks(now: datetime) -> list[Finding]:
    found = []
    for one in noticed.by_account(now):
        if one.finished >= LEAST_JOBS and one.silent_percent > SHARE_PERCENT:
            title = f"The poll finished {one.silent_percent} % of the last hour's jobs at {one.account}"
            detail = f"No webhook arrived for {one.silent:,} of {one.finished:,} jobs that ended there."
        elif one.overdue >= noticed.LEAST_OPEN:
            title = f"{one.account} has sent nothing for an hour, and jobs run there"
            detail = f"{one.overdue} of them or more are beyond half of their time, without a word."
        else:
            continue
        link = reverse("admin:webhooks_inboundevent_changelist")
        found.append(Finding("webhooks_silent", one.account, title, detail, ADVICE, link, one.silent_percent))
    return found
