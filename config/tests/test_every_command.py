"""Every command of ours, given what it cannot use: exit code not 0, words that say what to do, and no traceback."""

import importlib
import io
import json
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command, get_commands
from django.db import connection

from delivery.models import Delivery, Event
from kernel.management import base
from kernel.models import ApiKey, AuditEntry
from tasks.models import Batch

OURS = ("kernel", "delivery", "tasks", "webhooks", "console", "config")
COMMANDS = sorted(name for name, app in get_commands().items() if app in OURS)
GOOD = {  # what each would be run with; those that need no database are not listed
    "account": ["--day", "2026-11-29"],
    "analyze_dead_letters": [],
    "bootstrap_demo": [],
    "create_api_key": ["x", "--scopes", "tasks:read"],
    "preview_postback": ["1", "evt_1"],
    "prune": [],
    "publish": ["order.paid", "{}"],
    "reconcile": [],
    "redrive": ["--all"],
    "rotate_master_key": [],
    "slow_endpoints": [],
    "stats": [],
    "submit": ["{file}", "--kind", "map_search"],
}
LONG, NUL, HALF = "x" * 100_000, "a\x00b", "a\udcffb"
BAD = [
    ("account", ["--day", "yesterday"], "is no day; write 2026"),
    ("account", ["--day", "9999-12-31"], "is no day"),
    ("account", ["--day", "0001-01-01"], "is no day"),
    ("account", ["--subscriber", LONG], "a text of 0 to 100 characters"),
    ("analyze_dead_letters", ["--hours", "0"], "a whole number from 1"),
    ("analyze_dead_letters", ["--hours", "many"], "a whole number from 1"),
    ("analyze_dead_letters", ["--subscriber", LONG], "a text of 0 to 100"),
    ("bootstrap_demo", [], "ROUNDTRIP_ENV=demo"),
    ("create_api_key", [LONG, "--scopes", "tasks:read"], "a text of 1 to 100"),
    ("create_api_key", ["x", "--scopes", "all:things"], "choose from tasks:read"),
    ("create_api_key", ["x", "--scopes", ","], "Name a scope, or 'all'"),
    ("create_api_key", ["x", "--scopes", "tasks:read", "--expires-days", "1e9"], "a whole number from 1"),
    ("doctor", ["--jsn"], "unrecognized arguments"),
    ("document", ["--chek"], "unrecognized arguments"),
    ("preview_postback", ["1", "evt_1"], "There is no endpoint 1"),
    ("preview_postback", ["first", "evt_1"], "a whole number from 1"),
    ("preview_postback", ["9" * 30, "evt_1"], "a whole number from 1"),
    ("preview_postback", ["{endpoint}", "evt_1"], "There is no event 'evt_1'"),
    ("preview_postback", ["{endpoint}", "9" * 30], "There is no event '999"),
    ("preview_postback", ["{endpoint}", "²"], "There is no event"),
    ("preview_postback", ["{endpoint}", LONG], "a text of 1 to 64"),
    ("prune", ["--dryrun"], "unrecognized arguments"),
    ("publish", ["order.paid", "{"], "not JSON"),
    ("publish", ["order.paid", "[]"], "object"),
    ("publish", ["Order Paid", "{}"], "type"),
    ("publish", ["order." + LONG, "{}"], "A type is words of letters"),
    ("publish", ["order.paid", json.dumps({"x": LONG * 3})], "bytes"),
    ("publish", ["order.paid", "{}", "--subscriber", LONG], "at most 100 characters"),
    ("publish", ["order.paid", "{}", "--uid", "a b"], "uid"),
    ("reconcile", ["--forced"], "unrecognized arguments"),
    ("redrive", [], "Name a filter"),
    ("redrive", ["--endpoint", "999999"], "There is no endpoint 999999"),
    ("redrive", ["--endpoint", "9" * 30], "a whole number from 1"),
    ("redrive", ["--outcome", "bad_luck"], "choose from"),
    ("redrive", ["--since", "2026-13-45T00:00:00Z"], "is no time; write 2026"),
    ("redrive", ["--since", "0001-01-01T00:00:00+14:00"], "is no time"),
    ("redrive", ["--until", "9999-12-31T23:59:59-14:00"], "is no time"),
    ("redrive", ["--all", "--reason", LONG], "a text of 0 to 300"),
    ("redrive", ["--group", LONG], "a text of 1 to 32"),
    ("redrive", ["--own", "--subscriber", "acme"], "not both"),
    ("rotate_master_key", ["--newkey"], "unrecognized arguments"),
    ("slow_endpoints", ["--p95-ms", "nan"], "a number from 0"),
    ("slow_endpoints", ["--p95-ms", "-1"], "a number from 0"),
    ("slow_endpoints", ["--p95-ms", "1e999"], "a number from 0"),
    ("slow_endpoints", ["--samples", "0"], "a whole number from 1"),
    ("stats", ["--subscriber", LONG], "a text of 0 to 100"),
    ("submit", ["{missing}", "--kind", "map_search"], "No such file"),
    ("submit", ["{folder}", "--kind", "map_search"], "Is a directory"),
    ("submit", [LONG, "--kind", "map_search"], "File name too long"),
    ("submit", ["{file}", "--kind", "soothsaying"], "map_search"),
    ("submit", ["--from-batch", "999999", "--kind", "map_search"], "There is no batch 999999"),
    ("submit", ["{file}", "--kind", "map_search", "--subscriber", LONG], "at most 100"),
    ("submit", ["{file}", "--kind", "map_search", "--timeout", "nan"], "a number from 0"),
    ("submit", ["--kind", "map_search"], "Give either a FILE or --from-batch"),
    ("account", ["--subscriber", HALF], "half of a surrogate pair"),
    ("analyze_dead_letters", ["--subscriber", NUL], "a text of"),
    ("create_api_key", [HALF, "--scopes", "tasks:read"], "half of a surrogate pair"),
    ("create_api_key", ["x", "--scopes", NUL], "NUL"),
    ("preview_postback", ["{endpoint}", HALF], "half of a surrogate pair"),
    ("publish", [NUL, "{}"], "NUL"),
    ("publish", ["order.paid", "{}", "--uid", HALF], "half of a surrogate pair"),
    ("publish", ["order.paid", HALF], "half of a surrogate pair"),
    ("redrive", ["--group", HALF], "half of a surrogate pair"),
    ("redrive", ["--all", "--reason", NUL], "a text of"),
    ("stats", ["--subscriber", HALF], "half of a surrogate pair"),
    ("submit", ["{file}", "--kind", NUL], "NUL"),
    ("submit", ["{file}", "--kind", "map_search", "--reference", HALF], "half of a surrogate pair"),
    ("submit", ["/x" + NUL, "--kind", "map_search"], "NUL"),
    ("submit", ["/no/" + HALF, "--kind", "map_search"], "No such file"),
]  # fmt: skip


@pytest.fixture
def places(db, tmp_path, settings):
    """What stands for the words in braces."""
    from delivery.tests import factories

    settings.SANDBOX_PROVIDER_URL, settings.CELERY_BROKER_URL = "http://127.0.0.1:9", ""
    file = tmp_path / "searches.csv"
    file.write_text("trade,place\nbakery,Bonn\n")
    endpoint = factories.endpoint()
    return {
        "{file}": str(file),
        "{folder}": str(tmp_path),
        "{missing}": str(tmp_path / "no.csv"),
        "{endpoint}": str(endpoint.pk),
    }


def refused(name, arguments, places):
    """Its words, and all that it wrote. Anything but a refusal is raised."""
    out = io.StringIO()
    with pytest.raises((CommandError, SystemExit)) as caught:
        call_command(name, *(places.get(one, one) for one in arguments), stdout=out, stderr=out)
    code = caught.value.returncode if isinstance(caught.value, CommandError) else caught.value.code
    assert code != 0
    return f"{caught.value} {out.getvalue()}"


@pytest.mark.parametrize(("name", "arguments", "words"), BAD, ids=lambda one: str(one)[:40].encode("ascii", "replace"))
def test_what_it_cannot_use_is_refused_in_words_and_changes_nothing(places, name, arguments, words):
    told = refused(name, arguments, places)
    assert words in told
    assert "Traceback" not in told
    changed = [model.__name__ for model in (ApiKey, AuditEntry, Batch, Delivery, Event) if model.objects.exists()]
    assert changed == []


def test_every_command_of_ours_is_tried_and_stands_on_the_base():
    assert sorted({name for name, _, _ in BAD}) == COMMANDS
    assert sorted([*GOOD, "doctor", "document"]) == COMMANDS
    for name in COMMANDS:
        module = importlib.import_module(f"{get_commands()[name]}.management.commands.{name}")
        assert issubclass(module.Command, base.Command), name


@pytest.fixture
def in_demo(settings):
    settings.DEMO, settings.DEMO_ADMIN_USERNAME, settings.DEMO_ADMIN_PASSWORD = True, "demo", "a long password 1"


@pytest.mark.parametrize("name", GOOD)
def test_without_rights_in_the_database_it_says_which_and_what_to_do(places, in_demo, name):
    connection.check_constraints()  # what waits for the end of the transaction needs the rights too
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = CURRENT_USER")
        if cursor.fetchone()[0]:
            pytest.skip("a superuser has every right; bin/test's own servers have a plain one")
        cursor.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM CURRENT_USER")  # undone with the test
    told = refused(name, GOOD[name], places)
    assert "The database's user may not do this: permission denied for" in told
    assert "Grant it the right, or name its owner in DATABASE_URL." in told


@pytest.mark.parametrize("name", GOOD)
def test_before_the_first_migrate_it_says_what_to_run(places, in_demo, name):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path TO pg_temp")
    assert "Run: python manage.py migrate" in refused(name, GOOD[name], places)


RUN_ALL = """
import contextlib, io, json, sys
from django.core.management import execute_from_command_line
import django
django.setup()
told = {}
for name, arguments in json.load(sys.stdin).items():
    out, code = io.StringIO(), 0
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
        try:
            execute_from_command_line(["manage.py", name, *arguments])
        except SystemExit as ended:
            code = ended.code
        except BaseException as error:
            code = f"Traceback: {error!r}"
    told[name] = [code, out.getvalue()]
print(json.dumps(told))
"""


def test_without_a_database_each_says_so_in_one_line(tmp_path):
    file = tmp_path / "searches.csv"
    file.write_text("trade,place\nbakery,Bonn\n")
    given = {name: [str(file) if one == "{file}" else one for one in args] for name, args in GOOD.items()}
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "SANDBOX_PROVIDER_URL": "http://127.0.0.1:9",
        "SANDBOX_PROVIDER_KEY": "key",
        "SANDBOX_WEBHOOK_SECRET": "whsec_" + "MDAw" * 8,
        "DEMO_ADMIN_USERNAME": "demo",
        "DEMO_ADMIN_PASSWORD": "a long password 1",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input=json.dumps(given), cwd=settings.BASE_DIR, env=environment,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    del told["bootstrap_demo"]  # refuses before it asks: this is no demo
    assert sorted(told) == sorted(set(GOOD) - {"bootstrap_demo"})
    for name, (code, words) in told.items():
        assert code not in (0, None) and isinstance(code, int), (name, code, words)
        assert "The database does not answer" in words and "Traceback" not in words, (name, words)
        assert words.count("\n") <= 1, (name, words)
