"""`manage.py document`: writes docs/reference.md and docs/limits.md from the code, so that they cannot part from it."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

import delivery.states
import tasks.states
import webhooks.models
from config.environment import VARIABLES
from config.limits import SECTIONS
from delivery.policy.outcomes import EXPLANATIONS, Outcome
from kernel.auth import Scope
from tasks.kinds import KINDS

DOCS = settings.BASE_DIR / "docs"
INTRO = """# Reference

Made from the code by `python manage.py document`; a test fails when it is out of date. Do not edit it by hand.
"""

LIMITS_INTRO = """# Limits

What each door and each row takes at most, and what happens beyond. Made from the code by `python manage.py document`; a
test fails when it is out of date. Do not edit it by hand. Where no variable is named, the bound stands in the code.
"""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _words(choices: Any) -> str:
    return _table(("word", "in the console"), ((f"`{word}`", label) for word, label in choices.choices))


def _outcomes() -> str:
    return _table(("word", "meaning"), ((f"`{word.value}`", EXPLANATIONS[word]) for word in Outcome))


def _environment() -> str:
    rows = (
        (
            f"`{v.name}`",
            v.purpose + (" **Required in production.**" if v.required else "") + (" *Secret.*" if v.secret else ""),
            f"`{v.default}`" if v.default else "",
        )
        for v in VARIABLES
    )
    return _table(("variable", "what for", "default"), rows)


def _kinds() -> str:
    rows = []
    for kind in KINDS.values():
        fields = kind.schema.get("properties", {})
        required = set(kind.schema.get("required", []))
        names = ", ".join(f"`{name}`" + ("" if name in required else " (optional)") for name in fields)
        rows.append((f"`{kind.name}`", kind.title, names))
    return _table(("kind", "what it does", "input fields"), rows)


def reference() -> str:
    """The whole of docs/reference.md."""
    sections = (
        ("Environment", "Each can also come from a file: `NAME_FILE=/run/secrets/name`.\n\n" + _environment()),
        ("Kinds of task", _kinds()),
        ("Scopes of API keys", _words(Scope)),
        ("States of a task", _words(tasks.states.State)),
        ("States of an external job", _words(tasks.states.JobState)),
        ("What causes a transition", _words(tasks.states.Cause)),
        ("Reasons for ignoring a provider's word", _words(tasks.states.Reason)),
        ("Verdicts on inbound calls", _words(webhooks.models.InboundVerdict)),
        ("Why an inbound call is turned away", _words(webhooks.models.Refusal)),
        ("States of a delivery", _words(delivery.states.State)),
        ("Outcomes of an attempt", _outcomes()),
        ("States of a circuit breaker", _words(delivery.states.BreakerState)),
        ("Why an endpoint waits", _words(delivery.states.WaitReason)),
        ("Retry profiles", _words(delivery.states.RetryProfile)),
    )
    return INTRO + "".join(f"\n## {title}\n\n{body}" for title, body in sections)


def limits() -> str:
    """The whole of docs/limits.md."""
    parts = [LIMITS_INTRO]
    for section in SECTIONS:
        rows = ((row.what, row.most, row.beyond, f"`{row.setting}`" if row.setting else "") for row in section.limits)
        parts.append(f"\n## {section.title}\n\n" + _table(("what", "at most", "beyond it", "variable"), rows))
    return "".join(parts)


PAGES = {"reference.md": reference, "limits.md": limits}


class Command(BaseCommand):
    help = "Writes docs/reference.md and docs/limits.md from the code."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only say whether they are up to date")

    def handle(self, *args: Any, check: bool = False, **options: Any) -> None:
        for name, made in PAGES.items():
            path, text = DOCS / name, made()
            if not check:
                path.write_text(text, encoding="utf-8")
                self.stdout.write(f"Wrote docs/{name}.")
            elif not path.exists() or path.read_text(encoding="utf-8") != text:
                raise CommandError(f"docs/{name} is out of date. Run: python manage.py document")
