"""When a schedule is due: every so many seconds, or by a crontab expression in a time zone. Pure.

The two days on which clocks are changed are treated as Debian's cron does it. A fixed time ("30 2 * * *") that the
clock skips is due right after the gap, and one that the clock shows twice is due the first time only. Where minute or
hour begins with a star ("*/15 * * * *"), what is meant is a rhythm: it goes on through both, and nothing is made up.
"""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from tasks.errors import wrong_field
from tasks.models import Schedule

MOST_SLOTS = 500  # in one tick and schedule; with `all`, the rest comes with the next ticks
SHORTEST, LONGEST = 60, 10 * 366 * 86_400
SHOWN = 5
_INSTANT = timedelta(microseconds=1)


def slots(schedule: Schedule, now: datetime) -> list[datetime]:
    """The times that fell due after the last one made, oldest first.

    After a long stop, `all` goes on from where it was, in parts; the other two only keep a record of the last ones.
    """
    after = _after(schedule)
    if schedule.crontab:
        return _crontab_slots(schedule, after, now)
    step, first = _grid(schedule, after)
    if first > now:
        return []
    count = (now - first) // step + 1
    if count > MOST_SLOTS and schedule.catch_up != "all":
        first, count = first + step * (count - MOST_SLOTS), MOST_SLOTS
    return [first + step * index for index in range(min(count, MOST_SLOTS))]


def upcoming(schedule: Schedule, now: datetime, count: int = SHOWN) -> list[datetime]:
    """The next times it will be due, whether it is paused or not; none where its words cannot be read any more."""
    after = max(now, _after(schedule))
    if schedule.crontab:
        try:
            return list(islice(due_times(schedule.crontab, schedule.time_zone, after), count))
        except (CronSimError, LookupError, ValueError):  # such as a zone that the system's tables have lost
            return []
    step, first = _grid(schedule, after)
    return [first + step * index for index in range(count)]


def due_times(crontab: str, zone: str, after: datetime) -> Iterator[datetime]:
    """The times of a good expression after a moment, in UTC, each once; ends where none comes in fifty years."""
    for local in CronSim(crontab, after.astimezone(ZoneInfo(zone))):
        due = local.astimezone(UTC)
        if due > after:  # begun in the hour that comes twice, it would begin with the first of the two
            after = due
            yield due


def refuse_bad_rhythm(every_seconds: int | None, crontab: str, zone: str, now: datetime) -> None:
    """Raises InvalidInput with the field, where there is not one rhythm, or it can never be due."""
    if bool(every_seconds) == bool(crontab):
        words = "Give either every_seconds or a crontab expression, and leave the other empty."
        raise wrong_field("crontab" if crontab else "every_seconds", "one_rhythm", words)
    if every_seconds and not SHORTEST <= every_seconds <= LONGEST:
        words = f"From {SHORTEST} to {LONGEST} seconds (ten years)."
        raise wrong_field("every_seconds", "out_of_range", words)
    if zone not in _zones():
        words = f"There is no time zone {zone[:60]!r}. Write it as Europe/Warsaw or UTC."
        raise wrong_field("time_zone", "unknown_time_zone", words)
    if crontab:
        _refuse_bad_crontab(crontab, zone, now)


def _refuse_bad_crontab(crontab: str, zone: str, now: datetime) -> None:
    if len(crontab.split()) != 5:
        words = "It needs five fields: minute, hour, day of the month, month, weekday. Every day at 7:30 is 30 7 * * *"
        raise wrong_field("crontab", "bad_crontab", words)
    try:
        found = next(due_times(crontab, zone, now), None)
    except CronSimError as error:
        words = f"{error}. The fields are minute, hour, day of the month, month, weekday; a day must be in its month."
        raise wrong_field("crontab", "bad_crontab", words) from None
    if found is None:
        raise wrong_field("crontab", "never_due", "It would not be due in fifty years. Choose a day that comes.")


@functools.cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _after(schedule: Schedule) -> datetime:
    """Only what is due later than this is still to be made."""
    marks = (schedule.starts_at - _INSTANT, schedule.last_due_at, schedule.counts_from)
    return max(mark for mark in marks if mark is not None)


def _grid(schedule: Schedule, after: datetime) -> tuple[timedelta, datetime]:
    """The step of an interval, and its first time after a moment."""
    step = timedelta(seconds=schedule.every_seconds or SHORTEST)
    passed = (after - schedule.starts_at) // step
    return step, schedule.starts_at + step * max(0, passed + 1)


def _crontab_slots(schedule: Schedule, after: datetime, now: datetime) -> list[datetime]:
    if schedule.catch_up != "all":
        after = max(after, _some_slots_back(schedule, after, now))
    found: list[datetime] = []
    for due in due_times(schedule.crontab, schedule.time_zone, after):
        if due > now or (schedule.catch_up == "all" and len(found) == MOST_SLOTS):
            break
        found.append(due)
    return found[-MOST_SLOTS:]


def _some_slots_back(schedule: Schedule, after: datetime, now: datetime) -> datetime:
    """A moment with a few more than MOST_SLOTS behind it, so that a year of minutes is not gone through."""
    moment = now
    back = CronSim(schedule.crontab, now.astimezone(ZoneInfo(schedule.time_zone)), reverse=True)
    for local in islice(back, MOST_SLOTS + 1):
        moment = local.astimezone(UTC)
        if moment <= after:
            return after
    return moment - _INSTANT
