"""bin/up in a clone whose path holds a space and letters beyond ASCII: it starts, delivers, and stops clean."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.system import ROOT, System, wait_for

pytestmark = pytest.mark.fault
CODE = ("bin", "config", "console", "webhooks", "tasks", "delivery", "kernel", "sandbox", "templates")
FILES = ("manage.py", "requirements.txt", "requirements-dev.txt")


def test_a_clone_in_a_folder_with_any_letters_starts_and_delivers(tmp_path):
    clone = tmp_path / "Zoë ünd so" / "round trip"
    clone.mkdir(parents=True)
    for name in CODE:
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    for name in FILES:
        shutil.copy(ROOT / name, clone / name)
    (clone / ".venv").symlink_to(Path(sys.prefix))
    system = System(clone / "var", root=clone)
    system.start()
    try:
        event = system.post("/events/", {"type": "hello.world", "data": {"n": 1}}, 202)
        (row,) = wait_for(
            lambda: [
                row
                for row in system.every("/deliveries/", event=event["id"])
                if row["state"] in ("delivered", "dead_letter")
            ],
            60,
            "the delivery",
        )
        assert (row["state"], row["last_outcome"]) == ("delivered", "delivered")
    finally:
        assert system.stop() == 0
