"""docs/scenarios.md names only tests that there are."""

import re

from tests.e2e.system import ROOT

PROOF = re.compile(r"`([a-z0-9_/]+\.py)::(test_\w+)`")


def test_every_proof_in_the_table_is_a_test():
    named = PROOF.findall((ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8"))
    assert len(named) > 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not missing
