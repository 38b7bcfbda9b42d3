"""The sandbox adapter: conformance against the real process, and its payload's odd corners."""

from typing import Any

import pytest

from tasks.providers.base import OutcomeUnknown, ProviderThrottled, ProviderUnavailable, ProviderUpdate, Unparseable
from tasks.providers.sandbox import SandboxProvider, payloads
from tasks.states import JobStatus
from tasks.tests.conftest import KEY, SECRET, Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.provider_conformance import ProviderConformance


@pytest.fixture
def provider(sandbox: Sandbox) -> SandboxProvider:  # noqa: F811
    return SandboxProvider(sandbox.url, KEY, SECRET)


class TestSandbox(ProviderConformance):
    kind = "scoring"
    input = {"business": {"name": "Bar"}}
    bad_input = {"business": {}}
    callbacks = [
        (
            b'{"jobs": [{"job_id": "j1", "status": "completed", "progress": 100}]}',
            [ProviderUpdate("j1", status=JobStatus.SUCCEEDED, raw_status="completed", progress=100)],
        ),
        (
            b'{"job_id": "j1", "status": "failed", "error": {"code": "quota", "message": "No."}}',
            [ProviderUpdate("j1", "", JobStatus.FAILED, "failed", None, "quota", "No.")],
        ),
    ]

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> SandboxProvider:  # noqa: F811
        return SandboxProvider(sandbox.url, "wrong", SECRET)

    @pytest.fixture
    def dead_provider(self, sandbox: Sandbox) -> SandboxProvider:  # noqa: F811
        return SandboxProvider("http://127.0.0.1:9", KEY, SECRET)


@pytest.mark.parametrize(
    ("fault", "error"),
    [("server_error", ProviderUnavailable), ("rate_limited", ProviderThrottled)],
)
def test_faults_have_their_types(provider: SandboxProvider, sandbox: Sandbox, fault: str, error: Any) -> None:  # noqa: F811
    sandbox.faults(**{fault: 1.0})
    with pytest.raises(error) as caught:
        provider.list_jobs(job_ids=["x"])
    if error is ProviderThrottled:
        assert caught.value.retry_after == 1.0


def test_a_start_that_is_cut_off_has_an_unknown_outcome(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(start_timeout=1.0, hang_ms=2000)
    hasty = SandboxProvider(sandbox.url, KEY, SECRET, call_seconds=0.3)
    with pytest.raises(OutcomeUnknown):
        TestSandbox().started(hasty)


def test_listing_goes_through_all_pages(provider: SandboxProvider, monkeypatch: Any) -> None:
    monkeypatch.setattr("tasks.providers.sandbox.client.PAGE", 2)
    ids = {TestSandbox().started(provider).job_id for _ in range(5)}
    assert {job.update.job_id for job in provider.list_jobs(job_ids=ids)} == ids


@pytest.mark.parametrize(
    "body",
    [
        b'{"jobs": {}}',
        b'{"jobs": [1]}',
        b'{"jobs": [{"status": "completed"}]}',
        b'{"jobs": [{"job_id": "j", "status": null}]}',
        b'{"job_id": "j"}',
        b'{"job_id": "j\\u0000", "status": "completed"}',
    ],
)
def test_wrong_shapes_are_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        payloads.parse(body)


def test_odd_corners_of_the_payload() -> None:
    said = payloads.parse(b'{"batch_id": "b", "jobs": [{"job_id": "j", "status": "COMPLETED", "progress": "lots"}]}')
    assert said.batch_id == "b"
    assert said.updates[0].status == JobStatus.SUCCEEDED and said.updates[0].progress is None
    assert payloads.parse(b'{"jobs": []}').updates == ()
    assert payloads.parse(b'{"type": "billing.paid", "data": {}}').unknown_event == "billing.paid"
