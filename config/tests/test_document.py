"""The pages say what the code says."""

import pytest
from django.core.management import CommandError, call_command

from config.documents.markdown import with_parts
from config.environment import VARIABLES
from config.limits import SECTIONS, time
from config.management.commands import document
from config.management.commands.document import PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == PAGES[path](), "run: python manage.py document"


def test_a_page_that_is_out_of_date_is_named(monkeypatch, tmp_path, settings):
    settings.BASE_DIR = tmp_path
    path = tmp_path / "page.md"
    monkeypatch.setattr(document, "PAGES", {path: lambda: "new"})
    path.write_text("old")
    with pytest.raises(CommandError, match=r"Out of date: page\.md"):
        call_command("document", "--check")
    call_command("document")
    assert path.read_text() == "new"
    call_command("document", "--check")


def test_only_what_stands_between_the_marks_is_made_anew():
    page = "before\n<!-- made: a -->\n\nold\n\n<!-- end -->\nafter"
    assert with_parts(page, {"a": lambda: "new"}) == "before\n<!-- made: a -->\n\nnew\n\n<!-- end -->\nafter"


def test_a_part_without_a_place_and_a_place_without_a_part_are_noticed():
    with pytest.raises(ValueError, match="no place for b"):
        with_parts("", {"b": lambda: ""})
    with pytest.raises(KeyError):
        with_parts("<!-- made: c -->\n<!-- end -->", {})


def test_a_limit_stands_once_and_names_a_variable_that_exists():
    rows = [(section.title, row.what) for section in SECTIONS for row in section.limits]
    assert len(rows) == len(set(rows))
    named = {row.setting for section in SECTIONS for row in section.limits} - {""}
    assert named <= {variable.name for variable in VARIABLES}


@pytest.mark.parametrize(("figure", "words"), [(0.25, "0.25 s"), (90, "90 s"), (900, "15 min"), (86_400, "24 h")])
def test_times_are_told_exactly(figure, words):
    assert time(figure) == words
