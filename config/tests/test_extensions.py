"""Apps of others: found by name or by folder, and told by name where they cannot be loaded."""

import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import extensions
from config.tests.test_openapi import ROOT
from tasks.providers import discovery


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("tides_of_tests", "broken_of_tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "tides_of_tests" / "apps.py").write_text("class Tides:\n    pass\n")
    (tmp_path / "broken_of_tests" / "__init__.py").write_text("1 / 0\n")
    (tmp_path / "tides_of_tests" / "kinds.py").write_text("import nothing_of_this_name\n")
    return tmp_path


def test_an_app_is_named_by_its_folder_its_module_or_its_config(folder):
    assert extensions.apps([f"{folder}/tides_of_tests"], ROOT) == ["tides_of_tests"]
    assert sys.path[-1] == str(folder)
    names = ["tides_of_tests", "tides_of_tests.apps.Tides", "examples/extension/parcel"]
    assert extensions.apps(names, ROOT) == [*names[:2], "parcel"]
    assert extensions.apps([], ROOT) == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("no_such_app", "'no_such_app', which cannot be imported (ModuleNotFoundError"),
        ("json.Nothing", "'json.Nothing', which cannot be imported"),
        ("examples/nowhere", "is no Python package: it has no __init__.py"),
        ("{folder}/broken_of_tests", "'broken_of_tests', which cannot be imported (ZeroDivisionError"),
    ],
)
def test_one_that_cannot_be_imported_is_told_by_its_name(folder, entry, said):
    with pytest.raises(ImproperlyConfigured) as refused:
        extensions.apps([entry.format(folder=folder)], ROOT)
    assert said in str(refused.value)


def test_a_module_that_breaks_is_told_by_its_name(folder):
    extensions.apps([f"{folder}/tides_of_tests"], ROOT)
    with pytest.raises(ImproperlyConfigured, match=r"tides_of_tests\.kinds cannot be loaded \(ModuleNotFoundError"):
        discovery._import("tides_of_tests.kinds")
