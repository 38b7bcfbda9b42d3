"""The check of the OpenAPI document by npm's linters: it never passes in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / ".ci" / "openapi"


def test_without_npm_it_says_that_nothing_was_linted(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "openapi.py"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    words = "SKIPPED: there is no node or no npm; the OpenAPI document was not linted\n"
    assert (done.returncode, done.stdout) == (0, words)


@pytest.mark.parametrize("rules", ["redocly.yaml", "spectral.yaml"])
def test_every_rule_that_is_off_has_its_reason_above_it(rules):
    lines = (RULES / rules).read_text().splitlines()
    off = [place for place, line in enumerate(lines) if line.rstrip().endswith(": off")]
    assert off
    assert [lines[place] for place in off if not lines[place - 1].lstrip().startswith("#")] == []


def test_what_it_runs_is_pinned_to_the_byte():
    text = (RULES / "package-lock.json").read_text()
    assert text.count('"integrity": "sha512-') > 100
    assert "^" not in (RULES / "package.json").read_text()
