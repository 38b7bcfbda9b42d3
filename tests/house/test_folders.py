"""Every folder can be taken in at a glance, and what names a file by its path still finds it."""

import re

from tests.house.source import FLOORS, ROOT, modules

MOST_SIDE_BY_SIDE = 20
MOST_LINES = 400


def test_no_folder_holds_more_than_twenty_modules():
    counts: dict[str, int] = {}
    for module in modules():
        folder, _, file = module.name.rpartition("/")
        counts[folder] = counts.get(folder, 0) + (file != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > MOST_SIDE_BY_SIDE} == {}


def test_no_module_is_longer_than_four_hundred_lines():
    lines = {module.name: len((ROOT / module.name).read_text().splitlines()) for module in modules()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_what_is_marked_as_integration_is_there():
    marked = re.findall(r'^    "([\w/.]+)(?:::\w+)?",$', (ROOT / "conftest.py").read_text(), flags=re.M)
    assert marked
    assert [name for name in marked if not list(ROOT.glob(f"{name}*"))] == []


def test_the_pages_name_modules_that_exist():
    """`delivery/engine/claims.py` in a document of ours is a file."""
    path = re.compile(rf"`((?:{'|'.join(FLOORS)})/[\w/]+\.(?:py|html))`")
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for name in path.findall(page.read_text())
        if not (ROOT / name).exists()
    ]
    assert missing == []
