"""`manage.py document`: writes docs/reference.md, docs/events.md and parts of other pages from the code."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

import delivery.states
import tasks.states
import webhooks.models
from config.documents import live, receiving
from config.documents.events import events_page
from config.documents.markdown import table, with_parts
from config.environment import VARIABLES
from config.limits import SECTIONS
from delivery.policy.outcomes import EXPLANATIONS, Outcome
from kernel.auth import Scope
from kernel.management import base
from tasks.kinds import KINDS
from tasks.providers import answers

DOCS = settings.BASE_DIR / "docs"
INTRO = """# Reference

Made from the code by `python manage.py document`; a test fails when it is out of date. Do not edit it by hand.
"""

LIMITS_INTRO = """# Limits

What each door and each row takes at most, and what happens beyond. Made from the code by `python manage.py document`; a
test fails when it is out of date. Do not edit it by hand. Where no variable is named, the bound stands in the code.
"""


def _words(choices: Any) -> str:
    return table(("word", "in the console"), ((f"`{word}`", label) for word, label in choices.choices))


def _outcomes() -> str:
    return table(("word", "meaning"), ((f"`{word.value}`", EXPLANATIONS[word]) for word in Outcome))


def _environment() -> str:
    rows = (
        (
            f"`{v.name}`",
            v.purpose + (" **Required in production.**" if v.required else "") + (" *Secret.*" if v.secret else ""),
            f"`{v.default}`" if v.default else "",
        )
        for v in VARIABLES
    )
    return table(("variable", "what for", "default"), rows)


def _kinds() -> str:
    rows = []
    for kind in KINDS.values():
        fields = kind.schema.get("properties", {})
        required = set(kind.schema.get("required", []))
        names = ", ".join(f"`{name}`" + ("" if name in required else " (optional)") for name in fields)
        rows.append((f"`{kind.name}`", kind.title, names))
    return table(("kind", "what it does", "input fields"), rows)


def _answers() -> str:
    calls = tuple(answers.Call)
    rows = ((codes, *(means[call].value for call in calls)) for codes, means in answers.table())
    return (
        "*bad input* is for good: a dead letter at a start, and no new job for a result. *account* needs a person, "
        "*too many* and *wait* end by themselves; at a start these three hold its kind, and no attempt is charged. "
        "*unknown* may have been done: the kind is held, and the job is looked for before anything is started again. "
        "*not there* of a result waits for two minutes, *gone* does not. An adapter may know better of its provider."
        "\n\n" + table(("status", *(call.value for call in calls)), rows)
    )


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
        ("What a provider's answer means", _answers()),
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
        parts.append(f"\n## {section.title}\n\n" + table(("what", "at most", "beyond it", "variable"), rows))
    return "".join(parts)


def _parts(page: str, parts: dict[str, Callable[[], str]]) -> str:
    return with_parts((DOCS / page).read_text(encoding="utf-8"), parts)


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "reference.md": reference,
    DOCS / "limits.md": limits,
    DOCS / "events.md": events_page,
    DOCS / "receiving.md": partial(_parts, "receiving.md", receiving.PARTS),
    DOCS / "live.md": partial(_parts, "live.md", live.PARTS),
}


class Command(base.Command):
    help = "Writes the pages, and parts of pages, that are made from the code."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only say whether they are up to date")

    def handle(self, *args: Any, check: bool = False, **options: Any) -> None:
        stale = [(path, made) for path, make in PAGES.items() if (made := make()) != _standing(path)]
        names = ", ".join(str(path.relative_to(settings.BASE_DIR)) for path, _ in stale)
        if check and stale:
            raise CommandError(f"Out of date: {names}. Run: python manage.py document")
        for path, made in stale:
            path.write_text(made, encoding="utf-8")
        self.stdout.write(f"Wrote {names}." if stale else "All pages are up to date.")


def _standing(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
