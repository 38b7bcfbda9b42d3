"""`manage.py accounts …`: our accounts at job providers. Keys and secrets come from standard input or a variable."""

import getpass
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from kernel import clock
from kernel.management.arguments import short, whole
from tasks import accounting, accounts, providers
from tasks.accounting import rules
from tasks.errors import TaskError
from tasks.models import ProviderAccount
from tasks.reading import account_words

BAD_INPUT = 2  # exit code: nothing was changed; 1 says that a check found something wrong
IN_WORDS = {"api_key": "API key", "webhook_secret": "webhook secret"}


def option(text: str) -> tuple[str, Any]:
    """`name=value`; a value that is JSON is read as JSON."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"write NAME=VALUE, not {text[:40]!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


class Command(BaseCommand):
    help = "Show, make, check, rotate, pause, resume and retire accounts at job providers."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", help="every account, and what holds it").add_argument("--json", action="store_true")
        _add(verbs.add_parser("add", help="make one; its key is read from standard input, or asked for"))
        check = verbs.add_parser("check", help="ask the providers: do they answer, and take our keys?")
        check.add_argument("names", nargs="*", help="all that are in use, if none is named")
        _rotate(verbs.add_parser("rotate", help="a new key, or a new webhook secret beside the one before"))
        for verb, words in (
            ("pause", "start nothing new there"),
            ("resume", "start what waited"),
            ("retire", "nothing new goes there, for good"),
        ):
            one = verbs.add_parser(verb, help=words)
            one.add_argument("name")
            one.add_argument("--reason", type=short(0, 300), default="")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(**options)
        except TaskError as error:
            rows = [f"{row['field']}: {row['detail']}" for row in error.errors] or [error.detail]
            raise CommandError("Nothing was changed:\n  " + "\n  ".join(rows), returncode=BAD_INPUT) from None

    def _list(self, **options: Any) -> None:
        accounts.available()
        rows = [_shown(row) for row in ProviderAccount.objects.order_by("name")]
        if options["json"]:
            self.stdout.write(json.dumps(rows, ensure_ascii=False))
            return
        for row in rows:
            self.stdout.write(f"{row['name']}  {row['adapter']}  {row['state']}  {row['words']}".rstrip())
        if not rows:
            self.stdout.write("None yet. Make one: manage.py accounts add NAME --adapter ADAPTER")

    def _add(self, **options: Any) -> None:
        adapter = rules.known_adapter(options["adapter"])
        wanted = [name for name, needed in (("api_key", adapter.needs_api_key), ("webhook_secret", False)) if needed]
        if options["webhook_secret"] or options["webhook_secret_from"]:
            wanted.append("webhook_secret")
        values = {name: options[name] for name in ("base_url", *rules.LIMITS) if options[name] is not None}
        values |= {"options": dict(options["option"])} if options["option"] else {}
        values |= _secrets(wanted, options)
        row = accounting.create(options["name"], options["adapter"], values, **_by(options))
        self.stdout.write(f"Made {row.name}. Check it next: manage.py accounts check {row.name}")
        if adapter.needs_webhook_secret and not row.webhook_secret:
            address = account_words.callback_url(row.name) or f"PUBLIC_BASE_URL/webhooks/{row.name}/"
            self.stdout.write(
                f"Its webhooks go to {address}. Until `accounts rotate {row.name} --webhook-secret` has told us what "
                "they are signed with, only the minute poll finishes its jobs."
            )

    def _check(self, **options: Any) -> None:
        names = options["names"] or list(accounts.available())
        if not names:
            self.stdout.write("There is no account to check.")
        is_well = True
        for name in names:
            answer = accounting.check(name, actor=_actor())
            is_well &= answer.is_well
            self.stdout.write(f"{name}: {answer.words}")
        if not is_well:
            raise CommandError("Not all accounts can be used.", returncode=1)

    def _rotate(self, **options: Any) -> None:
        name, by = options["name"], _by(options)
        if options["end_previous"]:
            done = accounting.end_previous_secret(name, **by)
            self.stdout.write("Only the standing secret is accepted now." if done else "There was no earlier one.")
        elif options["what"] == "api_key":
            accounting.rotate_key(name, _secrets(["api_key"], options)["api_key"], **by)
            self.stdout.write(f"The next call carries it. Check it: manage.py accounts check {name}")
        else:
            overlap = timedelta(hours=options["overlap_hours"])
            secret = _secrets(["webhook_secret"], options)["webhook_secret"]
            row = accounting.rotate_secret(name, secret, overlap=overlap, **by)
            until = row.previous_secret_until
            also = f"; the one before until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            self.stdout.write(f"Webhooks signed with it are taken{also}.")

    def _pause(self, **options: Any) -> None:
        self._switch("pause", options, "Paused: running jobs go on, nothing new starts.", "It was paused already.")

    def _resume(self, **options: Any) -> None:
        self._switch("resume", options, "Resumed: waiting tasks start now.", "Nothing held it.")

    def _retire(self, **options: Any) -> None:
        self._switch("retire", options, "Retired: jobs in flight finish.", "It was retired already.")

    def _switch(self, verb: str, options: dict[str, Any], done: str, nothing: str) -> None:
        name = accounting.find(options["name"]).name
        self.stdout.write(done if getattr(accounting, verb)(name, **_by(options)) else nothing)


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="small letters, digits, underscores: part of its callback URL")
    parser.add_argument("--adapter", required=True, help=f"one of {', '.join(providers.adapters())}")
    parser.add_argument("--base-url", help="where the adapter takes one")
    parser.add_argument("--option", type=option, action="append", metavar="NAME=VALUE", help="may be repeated")
    for name, most in rules.LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=whole(1, most), metavar="N")
    parser.add_argument("--webhook-secret", action="store_true", help="read it too, in the line after the key")
    parser.add_argument("--api-key-from", metavar="VARIABLE", help="take the key from this variable")
    parser.add_argument("--webhook-secret-from", metavar="VARIABLE", help="take the secret from this variable")
    parser.add_argument("--reason", type=short(0, 300), default="")


def _rotate(parser: ArgumentParser) -> None:
    parser.add_argument("name")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--api-key", dest="what", action="store_const", const="api_key")
    what.add_argument("--webhook-secret", dest="what", action="store_const", const="webhook_secret")
    what.add_argument("--end-previous", action="store_true", help="accept the secret before no more")
    parser.add_argument("--overlap-hours", type=whole(0, 168), default=24, metavar="N", help="0: it has leaked")
    parser.add_argument("--api-key-from", metavar="VARIABLE", help="take the key from this variable")
    parser.add_argument("--webhook-secret-from", metavar="VARIABLE", help="take the secret from this variable")
    parser.add_argument("--reason", type=short(0, 300), default="")


def _secrets(wanted: list[str], options: dict[str, Any]) -> dict[str, str]:
    """Each from its variable, else a line of standard input, else asked for; never from the command line, which every
    user of the machine can read."""
    found = {}
    for name in wanted:
        if variable := options[f"{name}_from"]:
            found[name] = settings.READ_PROVIDER_VARIABLE(variable)
            if not found[name]:
                raise CommandError(f"{variable} is not set. Nothing was changed.", returncode=BAD_INPUT)
        elif sys.stdin.isatty():
            found[name] = getpass.getpass(f"{IN_WORDS[name]} (not shown): ")
        else:
            found[name] = sys.stdin.readline(rules.LONGEST_SECRET + 2).strip()
    return found


def _shown(row: ProviderAccount) -> dict[str, Any]:
    now = clock.now()
    return {
        "name": row.name,
        "adapter": row.adapter,
        "state": str(account_words.state(row, now)),
        "words": account_words.why_held(row, now),
        "is_from_environment": row.is_from_environment,
        **{name: getattr(row, name) for name in rules.LIMITS},
        "checked_at": row.checked_at.isoformat() if row.checked_at else None,
        "check_words": row.check_words,
    }


def _actor() -> str:
    return f"shell:{getpass.getuser()}"


def _by(options: dict[str, Any]) -> dict[str, str]:
    return {"actor": _actor(), "reason": options["reason"]}
