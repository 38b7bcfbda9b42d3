"""The mutation command: mutants that are mistakes, served without a file being touched, and targets that exist."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT, targets
from tests.mutation.mutants import mutants_of

SOURCE = '''"""A module."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cap:
    most: int | None = 5


def room(cap: Cap, used: int, state: str) -> int:
    if state == "open":
        report(used, loudly=True)
    return max(0, cap.most - used)
'''


def changes_of(source: str) -> set[str]:
    return {mutant.change for mutant in mutants_of(source)}


def test_mistakes_are_made_and_things_left_out():
    changes = changes_of(SOURCE)
    assert {
        'if state == "open": -> if state != "open":',
        "return max(0, cap.most - used) -> return max(0, cap.most + used)",
        "report(used, loudly=True) -> report(used, )",
        "report(used, loudly=True) -> pass",
        "most: int | None = 5 -> most: int | None = 6",
    } <= changes


def test_what_is_no_mistake_is_not_tried():
    changes = changes_of(SOURCE)
    assert not [change for change in changes if "frozen=False" in change or "dataclass()" in change]
    assert not [change for change in changes if "int & None" in change]
    assert not [change for change in changes if '< "open"' in change or 'is "open"' in change]


def test_the_mutants_of_some_changes_are_found_without_all_the_others():
    wanted = {"return max(0, cap.most - used) -> return max(0, cap.most + used)"}
    some = mutants_of(SOURCE, wanted)
    assert wanted <= {mutant.change for mutant in some} < changes_of(SOURCE)


def test_every_mutant_is_another_program_that_compiles():
    sources = [mutant.source for mutant in mutants_of(SOURCE)]
    assert len(sources) == len(set(sources)) > 10 and SOURCE not in sources
    for source in sources:
        compile(source, "mutant", "exec")


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.module)
def test_every_target_and_its_tests_exist_and_its_equivalents_are_still_mutants(target):
    assert target.path.is_file()
    assert target.tests and all((ROOT / path).is_file() for path in target.tests)
    assert not (target.pure and target.database)
    if target.equivalent:
        known = mutants_of(target.path.read_text(encoding="utf-8"), target.equivalent)
        assert set(target.equivalent) <= {mutant.change for mutant in known}


def test_a_mutant_is_seen_by_the_tests_and_no_file_is_touched():
    code = (
        "import os; os.environ.update(ROUNDTRIP_ENV='test', DJANGO_SETTINGS_MODULE='config.settings')\n"
        "from pathlib import Path\n"
        "from tests.mutation.running import load_libraries, tests_pass\n"
        "load_libraries()\n"
        "path = Path('delivery/policy/headers.py').resolve()\n"
        "source = path.read_text()\n"
        "run = lambda text: tests_pass('delivery.policy.headers', path, text, TESTS, seconds=120)\n"
        "TESTS = ['delivery/tests/policy/test_headers.py', '-k', 'good_ones']\n"
        "print(run(source), run(source.replace('{name}: {value}', '{name}; {value}')))\n"
    )
    before = Path(ROOT / "delivery/policy/headers.py").read_bytes()
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert Path(ROOT / "delivery/policy/headers.py").read_bytes() == before
