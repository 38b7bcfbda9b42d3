"""Nobody reads the host's clock: what is stored, compared or signed goes by `kernel.clock`, the database's."""

import ast
import re

import pytest

from tests.house.source import ROOT, Module, modules, place

EXCEPTIONS = {
    "kernel/clock.py": {
        "datetime.now": "stands in until the database has answered once; measures how far the host is off",
        "auto_now": "the two fields that replace Django's",
        "auto_now_add": "the two fields that replace Django's",
    },
    "kernel/admin/forms.py": {"auto_now": "reads which columns bear the time of a change; writes no time"},
}

READS = {  # what takes the time from the host, by module and name
    "datetime": {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"},
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "clock_gettime", "CLOCK_REALTIME"},
    "django.utils.timezone": {"now", "localdate", "localtime"},
    "django.utils": {"timezone.now", "timezone.localdate", "timezone.localtime"},
    "django.utils.timesince": {"timesince", "timeuntil"},
}
OPTIONS = {  # arguments by which somebody else's code reads it
    "auto_now": "kernel.clock.UpdatedAt",
    "auto_now_add": "kernel.clock.CreatedAt",
    "eta": "a due time in a row",
    "countdown": "a due time in a row",
    "max_age": "an end in what is signed, by kernel.clock",
}
IN_A_TEMPLATE = re.compile(r"\{%\s*now\b|\|\s*(?:timesince|timeuntil|naturaltime|naturalday)\b")


def _imported(module: Module) -> dict[str, str]:
    """Local name → where it is from: `from datetime import datetime as dt` is `dt` → `datetime.datetime`."""
    names = {}
    for node in module.nodes(ast.Import):
        names |= {
            one.asname or one.name.split(".")[0]: one.name if one.asname else one.name.split(".")[0]
            for one in node.names
        }
    for node in module.nodes(ast.ImportFrom):
        names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return names


FORBIDDEN = {f"{source}.{name}" for source, names in READS.items() for name in names}


def _dotted(node: ast.AST) -> str | None:
    """`a.b.c`; None where it begins with a call or the like."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _readings(module: Module):
    """(word, where) of every use, called or handed on: `default=timezone.now` reads the clock too."""
    names = _imported(module)
    for node in module.nodes(ast.Attribute, ast.Name):
        if (words := _dotted(node)) is None:
            continue
        first, _, rest = words.partition(".")
        whole = names.get(first, "") + (f".{rest}" if rest else "")
        if whole in FORBIDDEN:
            yield whole.removeprefix("datetime."), node
    for call in module.nodes(ast.Call):
        for keyword in call.keywords:
            if keyword.arg in OPTIONS:
                yield keyword.arg, call
        if (
            ast.unparse(call.func) == "getattr"
            and isinstance(call.args[1], ast.Constant)
            and call.args[1].value in OPTIONS
        ):
            yield call.args[1].value, call
    for text in module.nodes(ast.Dict):
        yield from ((key.value, key) for key in text.keys if isinstance(key, ast.Constant) and key.value in OPTIONS)


def test_nobody_but_the_clock_reads_the_hosts():
    found = [
        f"{place(module, node)} {word}: use {OPTIONS.get(word, 'kernel.clock.now()')}"
        for module in modules()
        for word, node in _readings(module)
        if word not in EXCEPTIONS.get(module.name, {})
    ]
    assert found == []


def test_every_exception_is_still_needed():
    used = {module.name: {word for word, _ in _readings(module)} for module in modules() if module.name in EXCEPTIONS}
    assert used == {name: set(words) for name, words in EXCEPTIONS.items()}


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("from django.utils import timezone\ntimezone.now()", "django.utils.timezone.now"),
        ("from django.utils import timezone\nF(default=timezone.now)", "django.utils.timezone.now"),
        ("from django.utils.timezone import now as n\nn()", "django.utils.timezone.now"),
        ("from datetime import datetime, UTC\ndatetime.now(UTC)", "datetime.now"),
        ("from datetime import datetime as d\nd.utcnow()", "datetime.utcnow"),
        ("import datetime\ndatetime.datetime.now()", "datetime.now"),
        ("from datetime import date\ndate.today()", "date.today"),
        ("import time\ntime.time()", "time.time"),
        ("import time as t\nt.time_ns()", "time.time_ns"),
        ("from time import time\ntime()", "time.time"),
        ("Field(auto_now_add=True)", "auto_now_add"),
        ("ring.apply_async(countdown=3)", "countdown"),
    ],
)
def test_a_reading_is_found_however_it_is_written(source, word):
    assert word in {found for found, _ in _readings(Module("a.py", ast.parse(source)))}


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.monotonic()",
        "from kernel import clock\nclock.now()",
        "from datetime import datetime, UTC\ndatetime.fromtimestamp(3, UTC)",
        "from django.db.models.functions import Now\nNow()",
    ],
)
def test_other_clocks_are_left_alone(source):
    assert list(_readings(Module("a.py", ast.parse(source)))) == []


def test_no_template_takes_the_time_itself():
    pages = [
        page
        for folder in ("templates", "console", "delivery", "tasks", "webhooks", "kernel")
        for page in (ROOT / folder).rglob("*.html")
    ]
    assert pages
    found = [
        f"{page.relative_to(ROOT)}: {words.group()}"
        for page in pages
        if (words := IN_A_TEMPLATE.search(page.read_text()))
    ]
    assert found == [], "use the console's own tags: they take the page's time"
