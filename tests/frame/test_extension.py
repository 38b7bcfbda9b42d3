"""An app of one's own beside Roundtrip: the example's own tests, the documents, and the two commands that copy it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

ROOT = Path(__file__).resolve().parents[2]
TAKEN_UP = """
import os, django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from config.management.commands.document import reference
from tasks import kinds, providers
from tasks.kinds.chaining import LINKS
call_command("check", fail_level="WARNING")
call_command("spectacular", "--fail-on-warn", "--file", os.devnull)
document = Client().get("/api/v1/schema/?format=json").json()
assert {"ParcelTaskRequest", "ParcelLabelBatchRequest"} <= set(document["components"]["schemas"])
assert {"parcel", "parcel_label"} <= set(document["components"]["schemas"]["KindName"]["enum"])
assert "`parcel`" in reference()
assert kinds.internal() == ("batch_report", "parcel_label") and ("parcel", "parcel_label") in LINKS
assert providers.adapter("courier").title == "Courier"
from tasks.accounts.environment import declared
assert declared()["courier"]["api_key"] == "from-the-environment"
"""


def run(apps, *command, **more):
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "ROUNDTRIP_ENV": "test"}
    environment |= {"ROUNDTRIP_APPS": apps, **more}
    words = [sys.executable, "-W", "ignore", *command]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def passed(done):
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def pytest_in(folder, apps):
    return run(apps, "-m", "pytest", str(folder), "-q", "-p", "no:cacheprovider")


def test_the_example_passes_its_own_tests():
    assert "39 passed" in passed(pytest_in("examples/extension", "examples/extension/parcel"))


def test_documents_and_checks_take_it_up_by_themselves():
    own = {"COURIER_URL": "https://courier.example", "COURIER_KEY": "from-the-environment"}
    passed(run("examples/extension/parcel", "-c", TAKEN_UP, **own))


def test_a_kind_and_a_provider_are_started_in_one_app_and_pass_their_tests(tmp_path, capsys):
    call_command("startkind", "tides", str(tmp_path))
    call_command("startprovider", "tide_desk", "--app", str(tmp_path / "tides"))
    said = capsys.readouterr().out
    assert f"ROUNDTRIP_APPS={tmp_path}/tides" in said and "accounts add tide_desk" in said
    text = "".join(path.read_text() for path in tmp_path.rglob("*.py"))
    assert "class TideDeskProvider" in text and "parcel" not in text.lower() and "courier" not in text.lower()
    assert "39 passed" in passed(pytest_in(tmp_path, f"{tmp_path}/tides"))


def test_nothing_is_overwritten_and_no_name_is_taken_twice(tmp_path, capsys):
    call_command("startprovider", "tide_desk", str(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words in (
        ("startprovider", "tide_desk", str(tmp_path)),
        ("startprovider", "other", "--app", str(tmp_path / "tide_desk")),
        ("startprovider", "sandbox", str(tmp_path)),
        ("startkind", "scoring", str(tmp_path)),
        ("startkind", "json", str(tmp_path)),
        ("startkind", "Tides", str(tmp_path)),
        ("startkind", "tides", str(tmp_path / "nowhere")),
        ("startprovider", "other", "--app", str(tmp_path)),
    ):
        with pytest.raises(CommandError, match="Nothing was written"):
            call_command(*words)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
