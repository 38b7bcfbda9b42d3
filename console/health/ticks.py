"""Beat's due times by the database's clock: django-celery-beat's own read the host's.

A beat whose host was an hour ahead would leave `last_run_at` an hour ahead, and its successor would stand still for an
hour; a change made from a host behind would not be noticed. `config.beat.Scheduler` uses these. They must never decide
what is due: the entries in the database do.
"""

from datetime import datetime
from typing import Any

from django_celery_beat.models import PeriodicTasks
from django_celery_beat.schedulers import ModelEntry

from kernel import clock


class Entry(ModelEntry):  # type: ignore[misc]
    """An entry of the schedule that is due by our clock."""

    last_run_at: datetime | None

    def __init__(self, model: Any, app: Any = None) -> None:
        super().__init__(model, app=app)
        zone = getattr(self.schedule, "tz", None)
        self.schedule.nowfun = clock.now if zone is None else lambda: clock.now().astimezone(zone)
        last: datetime | None = self.model.last_run_at
        if last and last > clock.now():  # from before the clocks agreed: due after one interval
            self.last_run_at = self.model.last_run_at = clock.now()

    def _default_now(self) -> datetime:  # the package's own hook
        return clock.now()


class Changes:
    """Tells when the schedule was changed, whatever the clock of who changed it said."""

    def __init__(self) -> None:
        self._stamp: datetime | None = None
        self._seen_at: datetime | None = None

    def last_change(self) -> datetime | None:
        stamp = PeriodicTasks.last_change()
        if stamp != self._stamp:
            self._stamp, self._seen_at = stamp, clock.now()
        return self._seen_at
