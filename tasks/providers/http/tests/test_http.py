"""The adapter for any HTTP service: conformance against a service like n8n's, and the words of its contract."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tasks.providers.base import (
    Account,
    BadAnswer,
    JobRef,
    NewJob,
    NotThere,
    OutcomeUnknown,
    ProviderCall,
    ProviderDenied,
    ProviderUnavailable,
    ProviderUpdate,
)
from tasks.providers.http import HttpProvider, payloads
from tasks.states import JobStatus
from tasks.tests.conftest import Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.emulated import DEAD, at, begun, changed, finished, fixture
from tasks.tests.provider_conformance import ProviderConformance

BUSINESS = {"business": {"name": "Bar"}}
COMPLETED = fixture(__file__, "completed.json")
REFERENCE = "00000000-0000-4000-8000-000000000001"


def service(url: str, way: str = "start", **more: Any) -> HttpProvider:
    root = f"{url}/workflow"
    options = {"status_url": f"{root}/jobs/{{job_id}}", "cancel_url": f"{root}/jobs/{{job_id}}/cancel"}
    key = {"key": more.pop("key")} if "key" in more else {}
    return at(f"{root}/{way}", HttpProvider, **key, **{**options, **more})


@pytest.fixture
def provider(sandbox: Sandbox) -> HttpProvider:  # noqa: F811
    return service(sandbox.url)


class TestHttp(ProviderConformance):
    kind = "scoring"
    input = BUSINESS
    bad_input = {"business": {}}
    callbacks = [
        (
            COMPLETED,
            [
                ProviderUpdate(
                    "execution-231",
                    status=JobStatus.SUCCEEDED,
                    raw_status="completed",
                    reference=REFERENCE,
                    brought=COMPLETED,
                )
            ],
        ),
        (
            b'{"jobs": [{"job_id": 7, "status": "FAILED", "error": {"code": "quota", "message": "No."}}, {"id": ""}]}',
            [
                ProviderUpdate("7", "", JobStatus.FAILED, "FAILED", None, "quota", "No."),
                ProviderUpdate("", problem="there is neither a job_id nor our reference"),
            ],
        ),
    ]
    junk = [b'{"jobs": {}}', b'{"jobs": [1]}', b'{"job_id": "x"}', b'{"status": "completed"}']

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> HttpProvider:  # noqa: F811
        return service(sandbox.url, key="wrong")

    @pytest.fixture
    def dead_provider(self) -> HttpProvider:
        return service(DEAD)

    def test_a_byte_order_mark_before_a_callback_is_read_over(self, provider: HttpProvider) -> None:
        for body, expected in self.callbacks:
            found = list(provider.parse(b"\xef\xbb\xbf" + body, {}).updates)
            assert [replace(update, brought=None) for update in found] == [
                replace(update, brought=None) for update in expected
            ]


@pytest.mark.parametrize(
    ("word", "means"), [*payloads.STATUSES.items(), ("COMPLETED", JobStatus.SUCCEEDED), ("done", JobStatus.UNKNOWN)]
)
def test_our_words_are_understood_and_no_other_is_guessed(word: str, means: JobStatus) -> None:
    update = payloads.update({"job_id": "x", "status": word})
    assert (update.status, update.raw_status) == (means, word)


def test_a_service_that_names_no_job_is_known_by_our_reference(sandbox: Sandbox) -> None:  # noqa: F811
    provider = service(sandbox.url, "quiet")
    started = begun(provider, "scoring", BUSINESS)
    assert started.job_id == started.reference == REFERENCE
    assert finished(provider, JobRef(REFERENCE, "scoring"))


def test_a_result_is_taken_from_the_callback_that_brought_it_to_the_digit() -> None:
    provider = at("https://n8n.example/webhook/x", HttpProvider)
    (update,) = provider.parse(COMPLETED, {}).updates
    found = provider.result(JobRef("execution-231", "scoring", brought=update.brought))
    assert found.value == {"score": 71.5, "reasons": ["has a website"]} and b"71.50" in found.raw


@pytest.mark.parametrize(
    "body",
    [
        changed(COMPLETED, status="running"),
        changed(COMPLETED, status="failed"),
        b'{"job_id": "x", "status": "completed"}',
        b'{"jobs": [{"job_id": "x", "status": "completed", "result": {}}]}',
    ],
)
def test_only_the_callback_of_one_finished_job_brings_a_result(body: bytes) -> None:
    assert [update.brought for update in payloads.parse(body).updates] == [None]


@pytest.mark.parametrize("result", [b'{"score": NaN}', b'{"score": 1, "score": 2}'])
def test_a_result_that_could_be_read_in_two_ways_is_refused_with_its_bytes(result: bytes) -> None:
    body = b'{"job_id": "x", "status": "completed", "result": ' + result + b"}"
    provider = at("https://n8n.example/webhook/x", HttpProvider)
    (update,) = provider.parse(body, {}).updates
    with pytest.raises(BadAnswer) as caught:
        provider.result(JobRef("x", "scoring", brought=update.brought))
    assert caught.value.raw == body


def test_a_result_lies_with_the_status_or_at_its_own_address(sandbox: Sandbox) -> None:  # noqa: F811
    provider = service(sandbox.url)
    job = finished(provider, JobRef(begun(provider, "scoring", BUSINESS).job_id, "scoring"))
    assert provider.result(job).value["score"] >= 0
    own = service(sandbox.url, result_url=f"{sandbox.url}/workflow/jobs/{{job_id}}")
    assert own.result(job).value["result"] == provider.result(job).value


def test_a_service_without_a_status_url_is_not_asked() -> None:
    provider = at("https://n8n.example/webhook/x", HttpProvider)
    assert (provider.can_be_asked, provider.finds_references) == (False, False)
    with pytest.raises(ProviderUnavailable, match="status_url"):
        provider.status(JobRef("x"))
    with pytest.raises(ProviderUnavailable, match="status_url"):
        provider.cancel(JobRef("x"))
    with pytest.raises(NotThere, match="brought no result"):
        provider.result(JobRef("x"))
    assert provider.missing_credentials() == "a status_url among its options"


def test_a_start_without_an_answer_is_found_where_our_reference_is_the_jobs_id(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(start_timeout=1.0, hang_ms=2000)
    account = service(sandbox.url, reference_is_id=True).account
    provider = HttpProvider(account, call_seconds=0.3)
    with pytest.raises(OutcomeUnknown):
        begun(provider, "scoring", BUSINESS)
    sandbox.faults(start_timeout=0.0)
    (found,) = provider.list_jobs(references=[REFERENCE, "00000000-0000-4000-8000-000000000002"])
    assert (found.reference, found.update.job_id) == (REFERENCE, REFERENCE)
    assert begun(provider, "scoring", BUSINESS).job_id == REFERENCE  # its idempotency key: no second job
    assert sandbox.stats()["kinds"]["scoring"]["jobs"]["started"] == 1


def test_how_a_callback_is_signed_is_the_accounts_choice() -> None:
    assert at(DEAD, HttpProvider).scheme == "standard_webhooks"
    assert at(DEAD, HttpProvider, signature="bearer").scheme == "shared_token"
    assert at(DEAD, HttpProvider, signature="rot13").scheme == "unknown"


def test_the_key_goes_in_the_header_that_the_options_name() -> None:
    assert at(DEAD, HttpProvider, key="k").credentials() == {"authorization": "Bearer k"}
    assert at(DEAD, HttpProvider, key="k", key_header="x-n8n-key").credentials() == {"x-n8n-key": "k"}
    assert at(DEAD, HttpProvider, key="").credentials() == {}


def test_an_account_without_an_address_is_told_before_anything_is_lost() -> None:
    provider = HttpProvider(Account("http"))
    assert "no address" in provider.lacks("scoring", {}) and provider.missing_credentials() == "its address"
    with pytest.raises(ProviderDenied, match="no address"):
        begun(provider, "scoring", BUSINESS)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"signature": "rot13"}, "one of standard_webhooks, bearer"),
        ({"status_url": "https://us.example/jobs"}, "status_url has no {job_id}"),
        ({"cancel_url": "https://us.example/stop"}, "cancel_url has no {job_id}"),
    ],
)
def test_options_that_cannot_work_are_told(options: dict[str, str], why: str) -> None:
    assert why in at("https://us.example/start", HttpProvider, **options).lacks("scoring", {})
    assert at("https://us.example/start", HttpProvider, status_url="https://us/{job_id}").lacks("scoring", {}) == ""


def test_a_workflow_that_is_switched_off_is_a_persons_matter(sandbox: Sandbox) -> None:  # noqa: F811
    with pytest.raises(ProviderDenied, match="There is no workflow"):
        begun(service(sandbox.url, "switched-off"), "scoring", BUSINESS)


def test_the_input_is_sent_by_its_template_with_kind_reference_and_callback(monkeypatch: Any) -> None:
    provider = at("https://n8n.example/webhook/x", HttpProvider)
    sent: dict[str, Any] = {}

    class Answer:
        content = b""

    monkeypatch.setattr(
        provider, "answer", lambda _purpose, address, **more: sent.update(more, address=address) or Answer()
    )
    call = ProviderCall("https://us.example/hook/?ref=r", options={"input": {"who": "{business.name}"}})
    assert provider.start("scoring", NewJob("r", BUSINESS), call).job_id == "r"
    assert (sent["address"], sent["headers"]) == ("https://n8n.example/webhook/x", {"idempotency-key": "r"})
    assert sent["json"] == {
        "kind": "scoring",
        "reference": "r",
        "input": {"who": "Bar"},
        "callback_url": "https://us.example/hook/?ref=r",
    }


def test_progress_and_permanence_are_read() -> None:
    said = {"job_id": "x", "status": "failed", "progress": 40.0, "permanent": True, "error": "no"}
    update = payloads.update(said)
    assert (update.progress, update.is_permanent, update.error_text) == (40, True, "no")
    assert payloads.update(json.loads('{"id": 5, "status": "running", "progress": "much"}')).progress is None
