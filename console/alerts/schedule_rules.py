"""Alert rules about beat's schedule: a row that beat passes over, and a row of ours that it does not run."""

from datetime import datetime

from django.urls import reverse

from console.alerts.findings import Finding
from console.health import schedule

LIST = "admin:django_celery_beat_periodictask_changelist"
CHANGE = "admin:django_celery_beat_periodictask_change"


def unusable(_now: datetime) -> list[Finding]:
    return [
        Finding(
            "schedule_row_unusable",
            str(row.pk),
            f"Beat passes over “{row.name[:80]}”",
            f"{words} Nothing of this row runs; the others do.",
            "Correct the row, or switch it off.",
            reverse(CHANGE, args=[row.pk]),
        )
        for row, words in schedule.unusable()
    ]


def missing(_now: datetime) -> list[Finding]:
    return [
        Finding(
            "schedule_row_missing",
            function,
            f"Nothing calls {function}",
            f"Its row in beat's schedule is {what}. Work that it finds or repairs is left lying.",
            "Switch it on, or add a row for this worker function.",
            reverse(LIST),
        )
        for function, what in schedule.missing().items()
    ]
