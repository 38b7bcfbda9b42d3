"""`manage.py unanswered`: starts whose answer never came: list them, name a job, or start again."""

import getpass
import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kernel import correlation
from kernel.management.arguments import short, whole
from tasks.errors import NotAdopted
from tasks.external import naming, unanswered
from tasks.models import ExternalJob

SHOWN = 200
BIGGEST = 2**63 - 1


class Command(BaseCommand):
    help = "Starts whose answer never came, at providers that cannot be asked: they wait for you."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--account", help="Only those at this account.")
        parser.add_argument("--task", type=whole(1, BIGGEST), action="append", metavar="ID", help="Only this task.")
        parser.add_argument("--job", type=short(1, naming.ID_LENGTH), metavar="JOB_ID", help="It is this job.")
        parser.add_argument("--start-again", action="store_true", help="Start them again; it may be paid for twice.")
        parser.add_argument("--all", action="store_true", help="With --start-again: every one of them.")
        parser.add_argument("--reason", default="", help="Kept with your name.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object a line.")

    def handle(self, *args: Any, **options: Any) -> None:
        with correlation.bind(None):
            if options["job"]:
                self._adopt(options)
            elif options["start_again"]:
                self._start_again(options)
            else:
                self._list(options)

    def _adopt(self, options: dict[str, Any]) -> None:
        if len(options["task"] or ()) != 1 or options["start_again"]:
            raise CommandError("Name the one task whose job it is: --task ID --job JOB_ID.", returncode=2)
        try:
            said = naming.adopt(options["task"][0], options["job"], actor=_actor(), reason=options["reason"])
        except NotAdopted as error:
            raise CommandError(error.detail) from None
        self.stdout.write(f"Task {options['task'][0]} has the job {options['job']}; the provider says “{said}” of it.")

    def _start_again(self, options: dict[str, Any]) -> None:
        if not (options["task"] or options["account"] or options["all"]):
            raise CommandError("Say which: --task ID, --account NAME or --all.", returncode=2)
        ids = list(_jobs(options).values_list("task_id", flat=True))
        moved = set()
        for start in range(0, len(ids), unanswered.LIMIT):
            part = ids[start : start + unanswered.LIMIT]
            moved |= unanswered.start_again(part, actor=_actor(), reason=options["reason"])
        self.stdout.write(f"Started again: {len(moved)}.")

    def _list(self, options: dict[str, Any]) -> None:
        jobs = list(_jobs(options)[: SHOWN + 1])
        for job in jobs[:SHOWN]:
            self.stdout.write(json.dumps(_shown(job)) if options["json"] else _words(job))
        if len(jobs) > SHOWN:
            self.stderr.write(f"Only the first {SHOWN} are shown.")
        if not jobs and not options["json"]:
            self.stdout.write("No start waits for you.")


def _jobs(options: dict[str, Any]) -> Any:
    jobs = unanswered.waiting(options["account"])
    return (jobs.filter(task_id__in=options["task"]) if options["task"] else jobs).order_by("pk")


def _words(job: ExternalJob) -> str:
    return (
        f"task {job.task_id}: at {job.provider} since {job.created_at:%Y-%m-%d %H:%M:%S} UTC, token {job.start_token}"
    )


def _shown(job: ExternalJob) -> dict[str, str]:
    return {
        "task": str(job.task_id),
        "account": job.provider,
        "started_at": job.created_at.isoformat(),
        "unanswered_at": job.unanswered_at.isoformat() if job.unanswered_at else "",
        "start_token": str(job.start_token),
    }


def _actor() -> str:
    return f"shell:{getpass.getuser()}"
