"""`manage.py kinds …`: what each kind of work may do, and its switch."""

import getpass
import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import models

from kernel import clock
from kernel.management.arguments import short
from tasks import accounts, kinds
from tasks.accounting import policies as settings_of
from tasks.engine import policies
from tasks.errors import TaskError
from tasks.management.commands.accounts import BAD_INPUT, option
from tasks.models import KindPolicy
from tasks.reading import labels

NONE = "none"  # what takes a limit, or the options, away


class Command(BaseCommand):
    help = "Show kinds of work, pause and resume them, and set where they run and in which limits."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="every kind, and what holds it").add_argument("--json", action="store_true")
        for verb, words in (("pause", "start nothing new of it"), ("resume", "start what waited")):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("kind")
            one.add_argument("--reason", type=short(0, 300), default="")
        _set(verbs.add_parser("set", help="change its policy; what is not named stays"))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(**options)
        except TaskError as error:
            rows = [f"{_named(row['field'])}: {row['detail']}" for row in error.errors] or [error.detail]
            raise CommandError("Nothing was changed:\n  " + "\n  ".join(rows), returncode=BAD_INPUT) from None

    def _list(self, **options: Any) -> None:
        told = {policy.kind: policy for policy in KindPolicy.objects.all()}
        rows = [_shown(name, told.get(name) or KindPolicy(kind=name)) for name in {**kinds.KINDS, **told}]
        if options["json"]:
            self.stdout.write(json.dumps(rows, ensure_ascii=False))
            return
        for row in rows:
            self.stdout.write(f"{row['kind']}  {row['runs_at']}  {row['words'] or 'starts as it comes'}")

    def _pause(self, **options: Any) -> None:
        done = policies.pause_kind(options["kind"].replace("-", "_"), **_by(options))
        self.stdout.write("Paused: running tasks go on, nothing new starts." if done else "It was paused already.")

    def _resume(self, **options: Any) -> None:
        done = policies.resume_kind(options["kind"].replace("-", "_"), **_by(options))
        self.stdout.write("Resumed: waiting tasks start now." if done else "It was not paused.")

    def _set(self, **options: Any) -> None:
        values = {name: options[name] for name in settings_of.fields() if options.get(name) is not None}
        if values.get("options") is not None:
            values["options"] = dict(values["options"])
        values = {name: _value(value) for name, value in values.items()}
        if not values:
            raise CommandError("Say what to set; --help lists it. Nothing was changed.", returncode=BAD_INPUT)
        policy = settings_of.change(options["kind"], values, **_by(options))
        self.stdout.write(f"{policy.kind}: {', '.join(sorted(_named(name) for name in values))} set.")


def _set(parser: ArgumentParser) -> None:
    parser.add_argument("kind")
    parser.add_argument("--account", dest="provider", metavar="NAME", help="where new work goes; '' for the default")
    parser.add_argument("--option", dest="options", type=option, action="append", metavar="NAME=VALUE")
    parser.add_argument("--no-options", dest="options", action="store_const", const=[], help="take them all away")
    for name in settings_of.fields():
        if name in (settings_of.ACCOUNT, settings_of.OPTIONS):
            continue
        column: Any = KindPolicy._meta.get_field(name)
        words = "yes or no" if isinstance(column, models.BooleanField) else "a number"
        more = f", or {NONE}" if column.null else ""
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar="VALUE", help=f"{words}{more}")
    parser.add_argument("--reason", type=short(0, 300), default="")


def _value(value: Any) -> Any:
    words: dict[Any, Any] = {NONE: None, "yes": True, "no": False}
    return words.get(value, value) if isinstance(value, str) else value


def _named(field: str) -> str:
    return "account" if field == settings_of.ACCOUNT else field


def _shown(name: str, policy: KindPolicy) -> dict[str, Any]:
    kind = kinds.find(name)
    where = accounts.name_for(policy) if kind is None or kind.is_external else "our own workers"
    return {
        "kind": name,
        "is_gone": kind is None,
        "runs_at": where or "nowhere",
        "words": labels.why_held(policy, clock.now()),
        **{_named(field): getattr(policy, field) for field in settings_of.fields()},
    }


def _by(options: dict[str, Any]) -> dict[str, str]:
    return {"actor": f"shell:{getpass.getuser()}", "reason": options["reason"]}
