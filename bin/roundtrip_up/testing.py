"""bin/test: the suite, on a PostgreSQL and a Valkey of its own that are gone afterwards.

Servers that the environment names are left alone, unless `--topology external` asks for just those.
"""

import os
import sys
from collections.abc import Mapping

from roundtrip_up import foreground, process_table, venv
from roundtrip_up.embedded import scratch
from roundtrip_up.embedded.postgres import FORGETFUL
from roundtrip_up.embedded.servers import plan, running
from roundtrip_up.folders import ROOT
from roundtrip_up.refusal import Refusal

URLS = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL")
# A developer's own settings must not change what the tests see.
PRODUCT_PREFIXES = ("ROUNDTRIP_", "SANDBOX_", "DEMO_", "DELIVERY_", "PROVIDER_")
TOPOLOGY = "ROUNDTRIP_TEST_TOPOLOGY"  # tests that would kill a server look here whether it is theirs
ALONE = "e2e or fault"  # whole systems, killed processes: these want both cores for themselves
NO_TESTS = 5


def test(topology: str, pytest_arguments: list[str]) -> int:
    """Run pytest; its exit status."""
    found = venv.ensure(venv.DEVELOPMENT, lambda text: print(text, flush=True))
    try:
        if topology == "external":
            return _pytest(found, pytest_arguments, {**_external(os.environ), TOPOLOGY: topology})
        with (
            scratch.data_folder() as data,
            running(data, plan(data, found, {}, settings=FORGETFUL, rights="NOSUPERUSER CREATEDB")) as servers,
        ):
            return _pytest(found, pytest_arguments, servers.urls)
    finally:
        scratch.clear_outside()  # of the systems that tests started in pytest's folders


def _external(environ: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in URLS if not environ.get(name)]
    if missing:
        raise Refusal(
            f"--topology external tests the servers that the environment names; set {', '.join(missing)} as well."
        )
    return {name: environ[name] for name in URLS}


def _pytest(found: venv.Venv, arguments: list[str], urls: Mapping[str, str]) -> int:
    env = {
        **process_table.environment({"ROUNDTRIP_ENV": "test", **urls}, clean(os.environ)),
        "ROUNDTRIP_TEST_PYTHON": str(found.python),
    }
    wanted, others = marked(arguments)
    command = [str(found.python), "-m", "pytest", *others]
    if any(not argument.startswith("-") for argument in others):  # a path or an expression: a choice of tests
        return foreground.run([str(found.python), "-m", "pytest", *arguments], env, ROOT)
    first = foreground.run([*command, "-n", "2", "-m", f"{wanted}not ({ALONE})"], env, ROOT)
    if first not in (0, 1, NO_TESTS):  # interrupted, or pytest itself is broken
        return first
    second = foreground.run([*command, "-m", f"{wanted}({ALONE})"], env, ROOT)
    if first == 1:
        print("bin/test: tests of the first part failed; see above", file=sys.stderr)
    return max((status for status in (first, second) if status != NO_TESTS), default=NO_TESTS)


def marked(arguments: list[str]) -> tuple[str, list[str]]:
    """`-m EXPR` as the beginning of an expression (empty where there is none), and the other arguments."""
    if "-m" not in arguments[:-1]:
        return "", arguments
    at = arguments.index("-m")
    return f"({arguments[at + 1]}) and ", arguments[:at] + arguments[at + 2 :]


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without Roundtrip's own variables (`NAME_FILE` included)."""
    known = {*process_table.declared(), "DJANGO_SETTINGS_MODULE"}
    return {
        name: value
        for name, value in environ.items()
        if name.removesuffix("_FILE") not in known and not name.startswith(PRODUCT_PREFIXES)
    }
