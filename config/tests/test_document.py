"""The pages that are made from the code say what the code says."""

import pytest

from config.environment import VARIABLES
from config.limits import SECTIONS, size, time
from config.management.commands.document import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run: python manage.py document"


def test_a_limit_stands_once_and_names_a_variable_that_exists():
    rows = [(section.title, row.what) for section in SECTIONS for row in section.limits]
    assert len(rows) == len(set(rows))
    named = {row.setting for section in SECTIONS for row in section.limits} - {""}
    assert named <= {variable.name for variable in VARIABLES}


@pytest.mark.parametrize(("figure", "words"), [(65_536, "64 KiB"), (4_000, "4,000 bytes"), (5 * 1024**2, "5 MiB")])
def test_bytes_are_told_exactly(figure, words):
    assert size(figure) == words


@pytest.mark.parametrize(("figure", "words"), [(0.25, "0.25 s"), (90, "90 s"), (900, "15 min"), (86_400, "24 h")])
def test_times_are_told_exactly(figure, words):
    assert time(figure) == words
