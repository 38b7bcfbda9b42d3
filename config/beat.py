"""Beat's scheduler: the package's own, which goes on where one row of its table cannot be run.

Started by `celery -A config beat -S config.beat:Scheduler`. An unusable row is passed over and logged once; the alert
`schedule_row_unusable` names it. It decides nothing else.
"""

from typing import Any

import structlog
from celery import schedules
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from console.health.schedule import why_unusable

AGAIN_SECONDS = 60.0

log = structlog.get_logger(__name__)


class Scheduler(DatabaseScheduler):
    """`DatabaseScheduler`, row by row."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._told: set[tuple[int, str]] = set()
        super().__init__(*args, **kwargs)

    def enabled_models(self) -> list[PeriodicTask]:
        return [row for row in super().enabled_models() if not self._passed_over(row)]

    def is_due(self, entry: Any) -> Any:
        """A row that could be computed when it was read may fail later, as when its last run moves."""
        try:
            return super().is_due(entry)
        except Exception as error:  # noqa: BLE001 - one row must not stop the others
            self._tell(entry.model, type(error).__name__)
            return schedules.schedstate(False, AGAIN_SECONDS)

    def _passed_over(self, row: PeriodicTask) -> bool:
        words = why_unusable(row)
        if words:
            self._tell(row, words)
        return bool(words)

    def _tell(self, row: PeriodicTask, words: str) -> None:
        if (row.pk, words) not in self._told:
            self._told.add((row.pk, words))
            log.error("schedule_row_unusable", row=row.pk, detail=words)
