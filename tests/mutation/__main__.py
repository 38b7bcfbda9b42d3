"""python -m tests.mutation [TARGET…] [--sample N] [--minutes M] [--seed S] [--jobs J]: which mistake would no test see?

A target is a module of targets.toml or the beginning of one (`delivery.policy`); none means all. For every mutant the
module's own tests run once; one that lives is printed with its line. A pure module's tests run without Django, which
takes a fifth of the time. With --sample or --minutes a module's mutants are tried in random order. Modules whose tests
need a database share one PostgreSQL and Valkey for the whole run. Exit 1 where a mutant lived that targets.toml does
not call equivalent.
"""

import argparse
import contextlib
import math
import os
import random
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.running import load_libraries, tests_pass

ROOT = Path(__file__).resolve().parents[2]
TARGETS = Path(__file__).with_name("targets.toml")
BASELINE_SECONDS = 300.0
WITHOUT_DJANGO = ("-p", "no:django", "--noconftest", "-o", "addopts=")  # its options would be unknown, and refused


@dataclass(frozen=True)
class Target:
    """A module, the tests that are its mirror, and the mutants that change nothing, each with the reason."""

    module: str
    tests: tuple[str, ...]
    database: bool = False
    pure: bool = False
    equivalent: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return ROOT / (self.module.replace(".", "/") + ".py")

    @property
    def arguments(self) -> list[str]:
        """What pytest is called with."""
        return [*self.tests, *(["--reuse-db"] if self.database else []), *(WITHOUT_DJANGO if self.pure else [])]


def targets() -> list[Target]:
    with TARGETS.open("rb") as file:
        read = tomllib.load(file)
    return [Target(module, tuple(values.pop("tests")), **values) for module, values in sorted(read.items())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("target", nargs="*", help="a module, or the beginning of its name (default: all)")
    parser.add_argument("--sample", type=int, default=0, help="of each module so many mutants at most")
    parser.add_argument("--minutes", type=float, default=0, help="of each module as many as can be begun in this time")
    parser.add_argument("--seed", type=int, default=1, help="which sample")
    parser.add_argument("--jobs", type=int, default=1, help="mutants side by side, where no database is needed")
    options = parser.parse_args()
    chosen = [t for t in targets() if not options.target or t.module.startswith(tuple(options.target))]
    if not chosen:
        parser.error(f"no such target; there are: {', '.join(target.module for target in targets())}")
    os.environ["ROUNDTRIP_ENV"] = "test"
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    load_libraries()
    with _servers() if any(target.database for target in chosen) else contextlib.nullcontext():
        lived = sum([_mutate(target, options) for target in chosen])
    return 1 if lived else 0


@contextlib.contextmanager
def _servers() -> Iterator[None]:
    """One PostgreSQL and Valkey for the whole run, named in the environment; gone afterwards."""
    sys.path.insert(0, str(ROOT / "bin"))
    from roundtrip_up import venv
    from roundtrip_up.embedded import scratch
    from roundtrip_up.embedded.postgres import FORGETFUL
    from roundtrip_up.embedded.servers import plan, running

    found = venv.ensure(venv.DEVELOPMENT, lambda text: print(text, flush=True))
    with (
        scratch.data_folder() as data,
        running(data, plan(data, found, {}, settings=FORGETFUL, rights="NOSUPERUSER CREATEDB")) as servers,
    ):
        os.environ.update(servers.urls)
        yield


def _mutate(target: Target, options: argparse.Namespace) -> int:
    """Try the mutants of one module; returns how many lived that are not known as equivalent."""
    source = target.path.read_text(encoding="utf-8")
    arguments = target.arguments
    began = time.monotonic()
    if not tests_pass(target.module, target.path, source, arguments, seconds=BASELINE_SECONDS):
        tests_pass(target.module, target.path, source, arguments, seconds=BASELINE_SECONDS, is_quiet=False)
        raise SystemExit(f"{target.module}: its tests fail without any mutant.")
    seconds = 10 + 5 * (time.monotonic() - began)
    everything = mutants_of(source)
    tried = [mutant for mutant in everything if mutant.change not in target.equivalent]
    equivalents = len(everything) - len(tried)
    if options.sample or options.minutes:
        tried = random.Random(options.seed).sample(tried, min(options.sample or len(tried), len(tried)))
    print(f"{target.module}: trying {len(tried)} of {len(everything)} mutants", flush=True)
    ends = time.monotonic() + 60 * options.minutes if options.minutes else math.inf
    lived = _living(target, tried, seconds, ends, 1 if target.database else options.jobs)
    print(
        f"{target.module}: {lived.count(False)} of {len(lived)} killed; {equivalents} equivalents not tried,"
        f" {len(everything)} mutants in all",
        flush=True,
    )
    return lived.count(True)


def _living(target: Target, mutants: Sequence[Mutant], seconds: float, ends: float, jobs: int) -> list[bool]:
    """For each mutant whether it lives; what has not begun when the time `ends` is left out."""
    arguments = target.arguments

    def lives(mutant: Mutant) -> bool | None:
        if time.monotonic() >= ends:
            return None
        alive = tests_pass(target.module, target.path, mutant.source, arguments, seconds=seconds)
        if alive:
            print(f"{target.path.relative_to(ROOT)}:{mutant.line}: [{mutant.rule}] {mutant.change}", flush=True)
        return alive

    with ThreadPoolExecutor(jobs) as pool:
        return [alive for alive in pool.map(lives, mutants) if alive is not None]


if __name__ == "__main__":
    sys.exit(main())
