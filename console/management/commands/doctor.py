"""`manage.py doctor [--quick] [--json]`: what works, proven by doing it, what is wrong, and what was not tried.

Exit 0 where nothing is wrong, 1 where something is, 130 after Ctrl-C.
"""

import json
import logging
import sys
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandParser

from console.health import doctor
from console.health.checks import Check
from console.health.doctor.findings import Finding, NotTried
from kernel.management import base

LEFT = 28  # columns of the names
STOPPED = 130  # as a shell counts Ctrl-C


class Command(base.Command):
    help = "Try everything Roundtrip needs, say what to do about what is wrong, and what was not tried."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")
        parser.add_argument("--quick", action="store_true", help="leave out what takes seconds or writes something")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = doctor.examine(is_quick=options["quick"])
        logging.disable(logging.WARNING)  # of what it tries: it says itself what came of it
        try:
            is_well = self._tell_json(list(findings)) if options["json"] else self._tell(findings)
        except KeyboardInterrupt:
            findings.close()  # what it made is removed there
            self.stderr.write("\nStopped. What it had made is removed again; run it once more for the whole answer.")
            sys.exit(STOPPED)
        finally:
            logging.disable(logging.NOTSET)
        if not is_well:
            sys.exit(1)

    def _tell_json(self, findings: list[Finding]) -> bool:
        checks = [one for one in findings if isinstance(one, Check)]
        is_well = all(check.is_ok for check in checks)
        body = {
            "ok": is_well,
            "checks": {check.name: {"ok": check.is_ok, "detail": check.words} for check in checks},
            "not_tried": {one.name: one.words for one in findings if isinstance(one, NotTried)},
            "environment": doctor.environment(),
        }
        self.stdout.write(json.dumps(body))
        return is_well

    def _tell(self, findings: Iterable[Finding]) -> bool:
        """Line by line as they come: some take seconds. What to do stands at the end, where it is seen."""
        self._tell_environment()
        wrong, left_out = 0, []
        for finding in findings:
            if isinstance(finding, NotTried):
                left_out.append(finding)
                continue
            wrong += not finding.is_ok
            mark = self.style.SUCCESS("ok  ") if finding.is_ok else self.style.ERROR("BAD ")
            self.stdout.write(f"{mark} {_words(finding.name):{LEFT}} {finding.words}")
            self.stdout.flush()
        self._tell_left_out(left_out)
        well = f"All is well with what was tried; {len(left_out)} things were not."
        self.stdout.write(f"\n{wrong} to mend; each line that begins with BAD says how." if wrong else f"\n{well}")
        return not wrong

    def _tell_environment(self) -> None:
        self.stdout.write("Environment (secrets are not shown):")
        for row in doctor.environment():
            value = row["value"] if row["is_set"] else "(not set)" if not row["value"] else f"{row['value']} (default)"
            self.stdout.write(f"     {row['name']:{LEFT}} {value}")
        self.stdout.write("")

    def _tell_left_out(self, left_out: list[NotTried]) -> None:
        """One line for each reason."""
        by_reason: dict[str, list[str]] = {}
        for one in left_out:
            by_reason.setdefault(one.words, []).append(_words(one.name))
        self.stdout.write("\nNot tried:")
        for words, names in by_reason.items():
            self.stdout.write(f"  -  {', '.join(names)}: {words}")


def _words(name: str) -> str:
    return name.replace("_", " ")
