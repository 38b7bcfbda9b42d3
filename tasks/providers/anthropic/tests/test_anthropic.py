"""The adapter of Anthropic: conformance against the emulation, and what becomes of a batch's items."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

from kernel.network.openings import parse_openings
from tasks.providers.anthropic import AnthropicBatches, payloads
from tasks.providers.base import (
    Account,
    AnswerTooLarge,
    BadAnswer,
    Gone,
    ItemFailed,
    JobRef,
    NewJob,
    NotThere,
    ProviderCall,
    ProviderDenied,
    Result,
    Unparseable,
)
from tasks.states import JobStatus
from tasks.tests.conftest import KEY, Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.drive import until_true
from tasks.tests.provider_conformance import ProviderConformance

INPUT = {"business": {"name": "Bar"}}


def account(url: str, key: str = KEY) -> Account:
    return Account("anthropic", url, key, (), {"model": "claude-x"}, parse_openings("127.0.0.0/8"))


@pytest.fixture
def provider(sandbox: Sandbox) -> AnthropicBatches:  # noqa: F811
    return AnthropicBatches(account(f"{sandbox.url}/anthropic"))


class TestAnthropic(ProviderConformance):
    kind = "scoring"
    input = INPUT
    bad_input = None
    callbacks = []

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> AnthropicBatches:  # noqa: F811
        return AnthropicBatches(account(f"{sandbox.url}/anthropic", "wrong"))

    @pytest.fixture
    def dead_provider(self) -> AnthropicBatches:
        return AnthropicBatches(account("http://127.0.0.1:9"))


def start(provider: AnthropicBatches, *models: str) -> list[JobRef]:
    """A batch of as many items as models, each asked of its own."""
    found = []
    for model in set(models):
        jobs = [NewJob(str(uuid.uuid4()), INPUT) for name in models if name == model]
        started = provider.start_batch("scoring", jobs, ProviderCall(options={"model": model}))
        found += [JobRef(job.job_id, "scoring", job.item_key, job.batch_id) for job in started]
    return found


def ended(provider: AnthropicBatches, job: JobRef) -> None:
    until_true(lambda: provider.status(job).status == JobStatus.SUCCEEDED)


def test_every_documented_status_and_fate_has_its_meaning() -> None:
    """The lists are those of Anthropic's own client."""
    from anthropic.types.messages import MessageBatch, MessageBatchRequestCounts, MessageBatchResult

    assert set(payloads.STATUSES) == set(get_args(MessageBatch.model_fields["processing_status"].annotation))
    assert set(payloads.COUNTS) == set(MessageBatchRequestCounts.model_fields)
    fates = {get_args(one.model_fields["type"].annotation)[0] for one in get_args(get_args(MessageBatchResult)[0])}
    for fate in fates:
        found = payloads.item(line({"type": fate, "message": message('{"score": 1, "reasons": []}')}), True, "scoring")
        assert not isinstance(found[1], BadAnswer)
    assert fates == {"succeeded", "errored", "canceled", "expired"}
    assert isinstance(payloads.item(line({"type": "frobnicated"}), True, "scoring")[1], BadAnswer)


def test_a_status_that_nobody_knows_is_no_end() -> None:
    update = payloads.update({"id": "msgbatch_1", "processing_status": "resting"})
    assert (update.status, update.raw_status, update.means_all_items) == (JobStatus.UNKNOWN, "resting", True)


def test_items_of_one_batch_share_a_job_and_each_has_its_result(provider: AnthropicBatches) -> None:
    jobs = start(provider, "claude-x", "claude-x", "claude-x")
    assert len({job.job_id for job in jobs}) == 1
    ended(provider, jobs[0])
    found = dict(provider.results(jobs[0]))
    assert set(found) == {job.item_key for job in jobs}
    assert all(isinstance(one, Result) and one.value["score"] > 0 for one in found.values())
    assert provider.result(jobs[1]).value == found[jobs[1].item_key].value
    with pytest.raises(Gone):
        provider.result(JobRef(jobs[0].job_id, "scoring", "not-in-it"))


@pytest.mark.parametrize(
    ("model", "said", "is_permanent"),
    [("too-slow", "expired", False), ("no-such-model", "invalid_request_error", True)],
)
def test_an_item_that_came_to_nothing_is_its_own_trouble(
    provider: AnthropicBatches, model: str, said: str, is_permanent: bool
) -> None:
    (job,) = start(provider, model)
    ended(provider, job)
    ((item_key, found),) = provider.results(job)
    assert item_key == job.item_key and isinstance(found, ItemFailed)
    assert (found.said, found.is_permanent) == (said, is_permanent)


def test_one_item_of_several_cannot_be_cancelled_alone_and_a_batch_of_one_can(
    provider: AnthropicBatches,
    sandbox: Sandbox,  # noqa: F811
) -> None:
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    several = start(provider, "claude-x", "claude-x")
    assert provider.cancel(several[0]).raw_status == "in_progress"
    with pytest.raises(NotThere):
        provider.result(several[0])
    (alone,) = start(provider, "claude-x")
    assert provider.cancel(alone).raw_status in ("canceling", "ended")
    ended(provider, alone)
    ((_, found),) = provider.results(alone)
    assert isinstance(found, ItemFailed) and found.said == "canceled" and not found.is_permanent


def test_the_newest_batches_are_listed_page_by_page(provider: AnthropicBatches, monkeypatch: Any) -> None:
    monkeypatch.setattr("tasks.providers.anthropic.client.PAGE", 2)
    ids = {start(provider, "claude-x")[0].job_id for _ in range(5)}
    found = provider.list_jobs(since=datetime.now(UTC) - timedelta(minutes=1))
    assert {one.update.job_id for one in found} == ids and len(found) == 5
    assert provider.list_jobs(since=datetime.now(UTC) + timedelta(minutes=1)) == []


def test_many_items_of_one_batch_are_asked_about_in_one_call(provider: AnthropicBatches, monkeypatch: Any) -> None:
    jobs = start(provider, "claude-x", "claude-x", "claude-x")
    calls: list[str] = []
    document = provider._caller.document
    monkeypatch.setattr(provider._caller, "document", lambda *a, **k: calls.append(a[2]) or document(*a, **k))
    assert [one.update.item_key for one in provider.list_jobs(jobs=jobs)] == [job.item_key for job in jobs]
    assert len(calls) == 1


def test_without_a_model_nothing_is_started(provider: AnthropicBatches) -> None:
    with pytest.raises(ProviderDenied):
        provider.start("scoring", NewJob("r", INPUT), ProviderCall())


def test_nothing_calls_back(provider: AnthropicBatches) -> None:
    assert provider.secrets() == [] and not provider.calls_back
    with pytest.raises(Unparseable):
        provider.parse(b'{"type": "message_batch"}', {})


def line(result: Any) -> bytes:
    return json.dumps({"custom_id": "item-1", "result": result}).encode()


def message(text: str, stop_reason: str = "end_turn") -> dict[str, Any]:
    return {"content": [{"type": "thinking"}, {"type": "text", "text": text}], "stop_reason": stop_reason}


@pytest.mark.parametrize(
    ("said", "words", "raw"),
    [
        (message('{"score": 7, "rea', "max_tokens"), "max_tokens", b'{"score": 7, "rea'),
        (message("Sorry.", "refusal"), "refused", b"Sorry."),
        (message('{"subject": "x"}'), "no score", b'{"subject": "x"}'),
    ],
)
def test_an_answer_that_cannot_be_used_is_kept(said: Any, words: str, raw: bytes) -> None:
    item_key, found = payloads.item(line({"type": "succeeded", "message": said}), True, "scoring")
    assert item_key == "item-1" and isinstance(found, BadAnswer)
    assert words in found.detail and found.raw == raw


def test_lines_that_cannot_be_read_name_their_item_where_they_can() -> None:
    cut = payloads.item(line({"type": "succeeded", "x": "y" * 5000})[:1000], False, "scoring")
    assert cut[0] == "item-1" and isinstance(cut[1], AnswerTooLarge)
    broken = payloads.item(b'{"custom_id": "item-1", "res', True, "scoring")
    assert broken[0] == "item-1" and isinstance(broken[1], BadAnswer)
    assert isinstance(payloads.item(b"7", True, "scoring")[1], BadAnswer)
