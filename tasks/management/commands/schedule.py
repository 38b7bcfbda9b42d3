"""`manage.py schedule`: what is submitted again and again, when it is due next, and the verbs."""

import getpass
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kernel import clock
from tasks import schedules
from tasks.errors import TaskError
from tasks.models import Schedule
from tasks.reading import labels

BAD_INPUT = 2
NEXT = 5


class Command(BaseCommand):
    help = "List schedules, show when one is due next, try an expression, pause, resume or run one now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="Every schedule, with its next time.")
        tried = verbs.add_parser("try", help="The next five times of a crontab expression; nothing is stored.")
        tried.add_argument("expression", help='In quotes: "30 7 * * MON-FRI"')
        tried.add_argument("--time-zone", default="UTC", help="e.g. Europe/Warsaw")
        for verb, words in (
            ("next", "Its next five times."),
            ("pause", "It makes nothing until it is resumed."),
            ("resume", "Its catch-up decides about what was due meanwhile."),
            ("run-now", "One task at once, beside its slots."),
        ):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("schedule", help="Its number or its name.")
            if verb != "next":
                one.add_argument("--reason", default="", help="Kept with your name.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            _VERBS[options["verb"]](self, options)
        except TaskError as error:
            raise CommandError(error.detail, returncode=BAD_INPUT) from None

    def _list(self, _options: dict[str, Any]) -> None:
        for schedule in Schedule.objects.order_by("name"):
            due = schedules.upcoming(schedule, clock.now(), 1) if schedule.is_enabled else []
            when = labels.moment(due[0]) if due else "paused" if not schedule.is_enabled else "never"
            self.stdout.write(
                f"{schedule.pk}  {schedule.name}  {schedule.kind}  {labels.rhythm(schedule)}  next: {when}"
            )

    def _try(self, options: dict[str, Any]) -> None:
        now = clock.now()
        schedules.refuse_bad_rhythm(None, options["expression"], options["time_zone"], now)
        self._times(Schedule(crontab=options["expression"], time_zone=options["time_zone"], starts_at=now))

    def _next(self, options: dict[str, Any]) -> None:
        self._times(_found(options["schedule"]))

    def _times(self, schedule: Schedule) -> None:
        for due in schedules.upcoming(schedule, clock.now(), NEXT):
            self.stdout.write(labels.moment(due))

    def _pause(self, options: dict[str, Any]) -> None:
        self._switch(schedules.pause, options, "Paused.", "It was paused already.")

    def _resume(self, options: dict[str, Any]) -> None:
        self._switch(schedules.resume, options, "Resumed.", "It was not paused.")

    def _switch(self, verb: Callable[..., bool], options: dict[str, Any], done: str, otherwise: str) -> None:
        is_done = verb(_found(options["schedule"]).pk, actor=_actor(), reason=options["reason"])
        self.stdout.write(done if is_done else otherwise)

    def _run_now(self, options: dict[str, Any]) -> None:
        task = schedules.run_now(_found(options["schedule"]).pk, actor=_actor(), reason=options["reason"])
        self.stdout.write(f"Task {task.pk} was submitted." if task else "It was deleted meanwhile.")


_VERBS: dict[str, Callable[[Command, dict[str, Any]], None]] = {
    "list": Command._list,
    "try": Command._try,
    "next": Command._next,
    "pause": Command._pause,
    "resume": Command._resume,
    "run-now": Command._run_now,
}


def _actor() -> str:
    return f"shell:{getpass.getuser()}"


def _found(text: str) -> Schedule:
    rows = Schedule.objects.filter(name=text)
    if text.isdecimal() and not rows:
        rows = Schedule.objects.filter(pk=int(text[:18]))
    found = list(rows[:2])
    if len(found) != 1:
        words = "Several subscribers have one of this name: give its number." if found else "There is no such schedule."
        raise CommandError(f"{words} `manage.py schedule list` shows all.", returncode=BAD_INPUT)
    return found[0]
