"""The clone may lie anywhere: a worker is started from a folder whose path holds spaces and letters beyond ASCII."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from delivery import events
from delivery.models import Delivery
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving
from tests.e2e.system import wait_for
from tests.scenarios.workers import ROOT, beat, workers

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]
CODE = ("config", "console", "webhooks", "tasks", "delivery", "kernel", "templates")


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A copy of the product; the packages are linked to, and so have paths below it too."""
    folder = tmp_path_factory.mktemp("home") / "Zoë ünd so" / "round trip"
    folder.mkdir(parents=True)
    for name in CODE:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def python_of(clone: Path) -> Path:
    return clone / ".venv" / "bin" / "python"


def delivered(count: int) -> None:
    def look() -> bool:
        beat()
        return not Delivery.objects.filter(state="pending").exists() and settled() == count

    def settled() -> int:
        return Delivery.objects.filter(state__in=("delivered", "dead_letter", "failed")).count()

    wait_for(look, 90, f"{count} deliveries", every=0.3)
    states = Counter(Delivery.objects.values_list("state", "last_outcome", "last_error"))
    assert states == {("delivered", "delivered", ""): count}


def test_the_bundle_of_cas_lies_below_the_clone(clone):
    """Or the two tests below would say nothing of it."""
    asked = [str(python_of(clone)), "-c", "import certifi; print(certifi.where())"]
    where = subprocess.run(asked, capture_output=True, check=True, env={"PYTHONUTF8": "1"}).stdout.decode()
    assert where.startswith(str(clone))


def test_a_worker_of_such_a_clone_delivers_with_the_bundle_it_brings(clone, make_endpoint, sink, tmp_path):
    certificates = hostile.Certificates(tmp_path)
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as receiver:
        make_endpoint(sink.url + "/")
        make_endpoint(receiver.url(), ca_certificate=certificates.ca_file.read_text())
        with workers(tmp_path / "log", root=clone, python=python_of(clone)) as group:
            group.start()
            events.record_many([events.NewEvent("a.b", {"n": 1}, "acme")])
            delivered(2)


def test_a_worker_of_such_a_clone_delivers_with_a_ca_file_beside_it(clone, make_endpoint, tmp_path):
    certificates = hostile.Certificates(tmp_path)
    own = clone / "our CÄ.pem"
    own.write_bytes(certificates.ca_file.read_bytes())
    with serving(answering(hostile.OK), tls=certificates.server_context("127.0.0.1")) as receiver:
        make_endpoint(receiver.url())
        with workers(tmp_path / "log", root=clone, python=python_of(clone), DELIVERY_CA_FILE=str(own)) as group:
            group.start()
            events.record_many([events.NewEvent("a.b", {"n": 1}, "acme")])
            delivered(1)
