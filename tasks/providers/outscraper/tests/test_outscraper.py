"""The Outscraper adapter: conformance against the emulation its own client works with, and its contract's corners."""

import json
from typing import Any

import pytest

from tasks.providers.base import Account, Gone, JobRef, NewJob, NotThere, ProviderCall, ProviderUpdate
from tasks.providers.outscraper import OutscraperProvider, payloads
from tasks.providers.outscraper.client import _search
from tasks.states import JobStatus
from tasks.tests.conftest import KEY, Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.emulated import DEAD, at, begun, changed, expire, finished, fixture
from tasks.tests.provider_conformance import ProviderConformance

SEARCH = {"trade": "piekarnia", "place": "Łódź", "country": "PL", "limit": 3}
FINISHED = fixture(__file__, "finished.json")
REQUEST = "a-44cab432-54db-4d56-b81c-f97b51bee451"


@pytest.fixture
def provider(sandbox: Sandbox) -> OutscraperProvider:  # noqa: F811
    return at(f"{sandbox.url}/outscraper", OutscraperProvider, secret="")


class TestOutscraper(ProviderConformance):
    kind = "map_search"
    input = SEARCH
    bad_input = {"trade": "piekarnia", "place": ""}
    callbacks = [
        (FINISHED, [ProviderUpdate(REQUEST, status=JobStatus.SUCCEEDED, raw_status="SUCCESS")]),
        (
            changed(FINISHED, status="FAILURE", errorMessage="No credits."),
            [ProviderUpdate(REQUEST, status=JobStatus.FAILED, raw_status="FAILURE", error_text="No credits.")],
        ),
    ]
    junk = [b'{"id": "x"}', b'{"status": "SUCCESS"}', b'{"id": null, "status": "SUCCESS"}']

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> OutscraperProvider:  # noqa: F811
        return at(f"{sandbox.url}/outscraper", OutscraperProvider, key="wrong")

    @pytest.fixture
    def dead_provider(self) -> OutscraperProvider:
        return at(DEAD, OutscraperProvider)


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("Pending", JobStatus.RUNNING),
        ("Success", JobStatus.SUCCEEDED),
        ("SUCCESS", JobStatus.SUCCEEDED),
        ("Failure", JobStatus.FAILED),
        ("Paused", JobStatus.UNKNOWN),
    ],
)
def test_every_documented_status_is_mapped_and_no_other_is_guessed(word: str, means: JobStatus) -> None:
    update = payloads.update({"id": REQUEST, "status": word})
    assert (update.status, update.raw_status) == (means, word)


def test_its_places_come_back_as_ours(provider: OutscraperProvider) -> None:
    job = finished(provider, JobRef(begun(provider, "map_search", SEARCH).job_id, "map_search"))
    found = provider.result(job)
    assert found.note == "" and len(found.value["places"]) == 3
    assert (found.value["places"][0]["place"], found.value["places"][0]["country"]) == ("Łódź", "PL")


def test_an_expired_result_reads_pending_again_and_is_not_there(
    provider: OutscraperProvider,
    sandbox: Sandbox,  # noqa: F811
) -> None:
    job = finished(provider, JobRef(begun(provider, "map_search", SEARCH).job_id, "map_search"))
    expire(sandbox, "outscraper", job.job_id)
    assert provider.status(job).status == JobStatus.RUNNING  # no end, and no task goes back for it
    with pytest.raises(NotThere, match="expired after four hours"):
        provider.result(job)


def test_a_204_is_the_failure_that_it_is_documented_as(provider: OutscraperProvider, sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(fail=1.0)
    job = finished(provider, JobRef(begun(provider, "map_search", SEARCH).job_id, "map_search"))
    update = provider.status(job)
    assert (update.status, update.raw_status) == (JobStatus.FAILED, "Failure") and update.error_text
    with pytest.raises(NotThere):
        provider.result(job)


def test_a_terminated_request_is_cancelled_though_it_reads_pending(
    provider: OutscraperProvider,
    sandbox: Sandbox,  # noqa: F811
) -> None:
    sandbox.faults(min_ms=5000, max_ms=5000)
    job = JobRef(begun(provider, "map_search", SEARCH).job_id, "map_search")
    update = provider.cancel(job)
    assert (update.status, update.raw_status) == (JobStatus.CANCELLED, "terminated")
    assert provider.status(job).raw_status == "Pending"


def test_a_result_that_says_failure_is_gone(provider: OutscraperProvider, monkeypatch: Any) -> None:
    class Answer:
        content = json.dumps({"id": REQUEST, "status": "Failure"}).encode()

    monkeypatch.setattr(provider, "answer", lambda *_, **__: Answer())
    with pytest.raises(Gone):
        provider.result(JobRef(REQUEST, "map_search"))


def test_what_signs_its_webhooks_is_the_api_key_and_those_of_before_while_it_is_exchanged() -> None:
    provider = OutscraperProvider(Account("outscraper", api_key=KEY, secrets=("before",)))
    assert provider.secrets() == [KEY, "before"]


def test_a_search_is_one_query_with_its_webhook_and_its_region() -> None:
    call = ProviderCall("https://us.example/hook/?ref=1", options={"language": "pl"})
    assert _search(NewJob("r", SEARCH).input, call) == {
        "query": ["piekarnia, Łódź, PL"],
        "organizationsPerQueryLimit": 3,
        "language": "pl",
        "region": "PL",
        "async": True,
        "webhook": "https://us.example/hook/?ref=1",
    }
    plain = _search({"trade": "bar", "place": "Oslo"}, ProviderCall())
    assert plain == {"query": ["bar, Oslo"], "organizationsPerQueryLimit": 10, "async": True}


def test_data_is_read_flat_and_by_query() -> None:
    assert payloads.items([[{"a": 1}], [{"a": 2}]]) == payloads.items([{"a": 1}, {"a": 2}]) == [{"a": 1}, {"a": 2}]
    with pytest.raises(payloads.Unparseable):
        payloads.items({"a": 1})
