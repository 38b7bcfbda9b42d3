"""A worker's loop against real children, on the tests' own database."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from tasks.kinds import KINDS
from tasks.runs.children import Children
from tasks.runs.runner import Runner

SECONDS = 30.0


class Worker:
    """Turns the loop until something is so."""

    def __init__(self, children: Children) -> None:
        self.stops = False
        self.runner = Runner(lambda: self.stops, children)

    def until(self, condition: Callable[[], bool]) -> None:
        ends = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < ends, "it did not get there"
            self.runner.nudge()
            self.runner.turn()


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """One template for all tests: a new one takes a second or more."""
    made = Children()
    yield made
    made.close()


@pytest.fixture
def behaving() -> Iterator[None]:
    """The kinds of `extra`, known to this process while the test runs."""
    from importlib import import_module, reload
    from sys import modules

    name = "tasks.tests.runs.extra.kinds"
    reload(modules[name]) if name in modules else import_module(name)
    yield
    for kind in ("behaving", "behaving_too"):
        KINDS.pop(kind)


@pytest.fixture
def worker(behaving: None, transactional_db: None, children: Children, monkeypatch: Any) -> Iterator[Worker]:
    parts = connection.settings_dict
    who = f"{parts['USER']}:{parts['PASSWORD']}@" if parts["USER"] else ""
    where = f"{parts['HOST']}{':' + str(parts['PORT']) if parts['PORT'] else ''}"
    monkeypatch.setenv("DATABASE_URL", f"postgresql://{who}{where}/{parts['NAME']}")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.tests.runs_settings")
    made = Worker(children)
    yield made
    made.runner._crew.disband()
