"""Providers are asked with the real credentials; the sandbox's process answers."""

import pytest

from console.health.doctor import jobs
from console.health.doctor.findings import NotTried
from tasks import providers
from tasks.providers.base import NO_JOB
from tasks.tests.conftest import KEY, SECRET, Sandbox, sandbox, sandbox_process  # noqa: F401


@pytest.fixture
def ask(settings, sandbox):  # noqa: F811
    def asked(key=KEY, url=sandbox.url):
        settings.SANDBOX_PROVIDER_URL, settings.SANDBOX_PROVIDER_KEY = url, key
        settings.SANDBOX_WEBHOOK_SECRET = SECRET
        return list(jobs.ask_providers())

    return asked


def test_a_job_that_is_not_there_is_an_answer(ask):
    (found,) = ask()
    assert (found.name, found.is_ok, found.words) == ("provider_sandbox", True, "answers, and takes our credentials")


def test_a_wrong_key_is_a_fault_that_says_what_to_do(ask):
    (found,) = ask(key="wrong")
    assert not found.is_ok and "Correct our key for sandbox" in found.words
    assert "wrong" not in found.words


def test_without_a_key_it_is_not_asked(ask):
    assert ask(key="", url="http://127.0.0.1:9") == [
        NotTried("provider_sandbox", "SANDBOX_PROVIDER_KEY is not set, so there is nothing to ask sandbox with")
    ]


def test_a_closed_port_is_a_fault(ask):
    (found,) = ask(url="http://127.0.0.1:9")
    assert not found.is_ok and "No usable answer (provider_unavailable)" in found.words


def test_a_throttled_question_proves_that_it_is_there_and_not_that_the_key_is_taken(ask, sandbox):  # noqa: F811
    sandbox.faults(rate_limited=1.0)
    there, unknown = ask()
    assert (there.is_ok, there.words) == (True, "answers, but not our question (provider_throttled)")
    assert isinstance(unknown, NotTried) and unknown.name == "credentials_sandbox"


def test_an_adapter_that_fails_is_named_and_the_next_is_asked(settings, ask, monkeypatch):
    ask()
    real = providers.available()["sandbox"]

    class Broken:
        missing_credentials = real.missing_credentials

        def greet(self):
            raise KeyError("a secret")

    monkeypatch.setattr(providers, "available", lambda: {"mine": Broken(), "sandbox": real})
    broken, well = jobs.ask_providers()
    assert not broken.is_ok and "KeyError" in broken.words and "secret" not in broken.words
    assert well.is_ok


def test_without_a_provider_that_is_what_it_says(settings):
    settings.SANDBOX_PROVIDER_URL = ""
    (found,) = jobs.ask_providers()
    assert isinstance(found, NotTried) and "no job provider is set up" in found.words


def test_nobody_gives_the_job_id_that_is_asked_for():
    assert NO_JOB == "roundtrip-doctor"
