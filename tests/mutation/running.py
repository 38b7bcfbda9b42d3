"""Runs a module's tests against one mutant: in a forked child, whose import system serves the mutant's source.

No file is ever changed, so a run that is killed leaves nothing behind, and several may run side by side. The parent
has the libraries loaded already, which is most of what a test run costs to begin.
"""

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import NoReturn

import hypothesis
import pytest

LIBRARIES = (
    "_pytest.assertion.rewrite", "celery", "cryptography.fernet", "django.contrib.admin",
    "django.db.backends.postgresql", "django.test", "hypothesis", "psycopg", "pycurl", "pytest_django.plugin",
    "requests", "schemathesis.pytest.plugin", "structlog",
)  # fmt: skip
LOOK_SECONDS = 0.02
# The same examples for every mutant, and no search for a smaller one: that it fails is all we ask.
FIRST_FAILURE = (hypothesis.Phase.explicit, hypothesis.Phase.generate)


class _Serving(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, str(path), source

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Serving(fullname, self._path, self._source)
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


def load_libraries() -> None:
    """Load what every child would load; never the product itself, since one of its modules is about to be another."""
    for name in LIBRARIES:
        importlib.import_module(name)
    product = ("config", "console", "delivery", "kernel", "tasks", "webhooks")
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in product)
    if loaded:
        raise RuntimeError(f"Already loaded, so a mutant of it would not be seen: {', '.join(loaded)}.")
    gc.freeze()  # pytest collects garbage three times a run, which would look at all of these


def tests_pass(
    module: str, path: Path, source: str, arguments: Sequence[str], *, seconds: float, is_quiet: bool = True
) -> bool:
    """Whether the tests pass with this source as the module. Hanging for `seconds` counts as failing."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _child(_Finder(module, path, source), arguments, is_quiet)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(LOOK_SECONDS)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _child(finder: _Finder, arguments: Sequence[str], is_quiet: bool) -> NoReturn:
    status: int = 1
    with contextlib.suppress(BaseException):
        if is_quiet:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=FIRST_FAILURE)
        hypothesis.settings.load_profile("mutants")
        sys.dont_write_bytecode = True
        sys.meta_path.insert(0, finder)
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *arguments]))
    os._exit(status)
