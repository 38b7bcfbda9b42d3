"""Alerts: evaluate the rules, open what is new, keep what goes on, resolve what is over. SQL: one lock.

One open alert for a rule and its subject (a constraint says so too). Opening, its event `alert.opened` and its log
line belong together: the event commits with the row. Two evaluators at once do no harm: the second finds the
lock taken.
"""

import secrets
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import structlog
from django.db import connection, transaction

from console.alerts import inbound
from console.alerts.rules import RULES, Finding
from console.health import heartbeat
from console.models import Alert
from delivery import events
from delivery.errors import UidTaken
from delivery.policy.catalogue import ALERT_OPENED
from kernel import audit, steps
from kernel.live_hints import touched
from kernel.web import sessions

LOCK = 0x52_54_41_4C  # "RTAL"

log = structlog.get_logger(__name__)


def evaluate(now: datetime) -> None:
    """Look at every rule once, and settle the alerts accordingly."""
    findings: list[Finding] = []
    looked_at: list[str] = []
    for name, looks in (RULES | inbound.RULES).items():
        found: list[Finding] = []
        # One broken rule must not silence the others; its alerts stay as they are.
        if steps.guarded(f"console: alert rule {name}", lambda: found.extend(_look(looks, now))):  # noqa: B023
            findings += found
            looked_at.append(name)
    _apply(findings, looked_at, now)
    heartbeat.beat_once(heartbeat.EVALUATOR, process="evaluator")
    heartbeat.sweep()
    sessions.sweep()


def _look(looks: Iterable[Callable[[datetime], list[Finding]]], now: datetime) -> list[Finding]:
    return [finding for look in looks for finding in look(now)]


def _apply(findings: Iterable[Finding], rules: Iterable[str], now: datetime) -> None:
    """Make the open alerts of these rules equal these findings."""
    with transaction.atomic():
        if not _alone():
            return
        unsettled = {(row.rule, row.subject): row for row in _open(rules)}
        changed = False
        for finding in findings:
            row = unsettled.pop((finding.rule, finding.subject), None)
            changed |= _open_one(finding, now) if row is None else _keep(row, finding, now)
        for row in unsettled.values():
            changed |= _close(row, now, by="the rule: it is over")
        if changed:
            touched("alerts", "stats")


def _alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
        return cursor.fetchone()[0]


def _open(rules: Iterable[str]) -> list[Alert]:
    return list(Alert.objects.select_for_update().filter(rule__in=list(rules)).exclude(state=Alert.State.RESOLVED))


def _open_one(finding: Finding, now: datetime) -> bool:
    row = Alert.objects.create(
        rule=finding.rule,
        subject=finding.subject,
        title=finding.title[:200],
        detail=finding.detail,
        advice=finding.advice,
        link=finding.link,
        value=finding.value,
        opened_at=now,
        last_seen_at=now,
    )
    data = {
        "id": str(row.pk),
        "rule": row.rule,
        "subject": row.subject,
        "title": row.title,
        "detail": row.detail,
        "advice": row.advice,
        "value": row.value,
    }
    _tell(row, data, now)
    log.warning("alert_opened", alert=row.pk, rule=row.rule, subject=row.subject, title=row.title)
    return True


def _tell(row: Alert, data: dict[str, Any], now: datetime) -> None:
    """The event; under another name where an earlier release let a caller have this one. Alerts open all the same."""
    for uid in (f"alert_{row.pk}", f"alert_{row.pk}_{secrets.token_hex(4)}"):
        try:
            with transaction.atomic():
                events.record(ALERT_OPENED, data, subscriber="", uid=uid, occurred_at=now)
            return
        except UidTaken:
            log.warning("alert_uid_taken", alert=row.pk)


def _keep(row: Alert, finding: Finding, now: datetime) -> bool:
    is_changed = (row.title, row.detail, row.value) != (finding.title[:200], finding.detail, finding.value)
    row.title, row.detail, row.value = finding.title[:200], finding.detail, finding.value
    row.last_seen_at = now
    row.save(update_fields=["title", "detail", "value", "last_seen_at"])
    return is_changed


def _close(row: Alert, now: datetime, by: str) -> bool:
    row.state, row.resolved_at, row.resolved_by = Alert.State.RESOLVED, now, by[:100]
    row.save(update_fields=["state", "resolved_at", "resolved_by"])
    log.info("alert_resolved", alert=row.pk, rule=row.rule, subject=row.subject, by=by)
    return True


def acknowledge(alert_id: int, *, actor: str, now: datetime, reason: str = "") -> bool:
    """Somebody looks after it; it stays until it is over. False if it is not open."""
    with transaction.atomic():
        moved = Alert.objects.filter(pk=alert_id, state=Alert.State.OPEN).update(
            state=Alert.State.ACKNOWLEDGED, acknowledged_at=now, acknowledged_by=actor[:100]
        )
        return _noted(moved, alert_id, "acknowledge", actor, reason)


def resolve(alert_id: int, *, actor: str, now: datetime, reason: str = "") -> bool:
    """A person calls it done; where the rule still finds it, the next look opens a new one. False if it was."""
    with transaction.atomic():
        moved = (
            Alert.objects.filter(pk=alert_id)
            .exclude(state=Alert.State.RESOLVED)
            .update(state=Alert.State.RESOLVED, resolved_at=now, resolved_by=actor[:100])
        )
        return _noted(moved, alert_id, "resolve", actor, reason)


def _noted(moved: int, alert_id: int, verb: str, actor: str, reason: str) -> bool:
    if moved:
        audit.record(actor, verb, "alert", [alert_id], reason)
        touched("alerts")
    return bool(moved)
