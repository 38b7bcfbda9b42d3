"""The adapters of OpenAI: conformance against the emulation, and the odd corners of responses and batches."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from kernel.network.openings import parse_openings
from tasks.providers.base import (
    Account,
    AnswerTooLarge,
    BadAnswer,
    Gone,
    ItemFailed,
    JobRef,
    NewJob,
    NotThere,
    OutcomeUnknown,
    ProviderCall,
    ProviderDenied,
    ProviderUnavailable,
    ProviderUpdate,
    Result,
    Unparseable,
)
from tasks.providers.openai import OpenAIBatches, OpenAIResponses, batch_payloads, payloads
from tasks.states import JobStatus
from tasks.tests.conftest import KEY, SECRET, Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.provider_conformance import ProviderConformance

OPTIONS = {"model": "gpt-x"}
INPUT = {"business": {"name": "Bar"}}


def account(url: str, key: str = KEY, **options: Any) -> Account:
    return Account("openai", url, key, (SECRET,), options or OPTIONS, parse_openings("127.0.0.0/8"))


def event(kind: str, name: str) -> bytes:
    said = {"id": "evt_1", "object": "event", "created_at": 1750287078, "type": kind, "data": {"id": name}}
    return json.dumps(said).encode()


AT = datetime.fromtimestamp(1750287078, UTC)


class TestResponses(ProviderConformance):
    kind = "scoring"
    input = INPUT
    bad_input = {"business": {"name": "x" * 200_000}}
    callbacks = [
        (
            event("response.completed", "resp_1"),
            [ProviderUpdate("resp_1", "", JobStatus.SUCCEEDED, "response.completed", happened_at=AT)],
        ),
        (
            event("response.incomplete", "resp_1"),
            [ProviderUpdate("resp_1", "", JobStatus.RUNNING, "response.incomplete", happened_at=AT)],
        ),
    ]

    @pytest.fixture
    def provider(self, sandbox: Sandbox) -> OpenAIResponses:  # noqa: F811
        return OpenAIResponses(account(f"{sandbox.url}/openai"))

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> OpenAIResponses:  # noqa: F811
        return OpenAIResponses(account(f"{sandbox.url}/openai", "wrong"))

    @pytest.fixture
    def dead_provider(self) -> OpenAIResponses:
        return OpenAIResponses(account("http://127.0.0.1:9"))

    def test_a_new_status_word_is_unknown_and_not_an_end(self, provider: OpenAIResponses) -> None:
        """Its word is the event's type; one that begins as ours do is of a job all the same."""
        (update,) = provider.parse(event("response.frobnicating", "resp_1"), {}).updates
        assert (update.status, update.raw_status) == (JobStatus.UNKNOWN, "response.frobnicating")
        assert provider.parse(event("fine_tuning.job.failed", "ftjob_1"), {}).unknown_event == "fine_tuning.job.failed"


class TestBatches(ProviderConformance):
    kind = "scoring"
    input = INPUT
    bad_input = None
    callbacks = [
        (
            event("batch.completed", "batch_1"),
            [
                ProviderUpdate(
                    "batch_1", "", JobStatus.SUCCEEDED, "batch.completed", happened_at=AT, means_all_items=True
                )
            ],
        ),
    ]

    @pytest.fixture
    def provider(self, sandbox: Sandbox) -> OpenAIBatches:  # noqa: F811
        return OpenAIBatches(account(f"{sandbox.url}/openai"))

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> OpenAIBatches:  # noqa: F811
        return OpenAIBatches(account(f"{sandbox.url}/openai", "wrong"))

    @pytest.fixture
    def dead_provider(self) -> OpenAIBatches:
        return OpenAIBatches(account("http://127.0.0.1:9"))

    test_a_new_status_word_is_unknown_and_not_an_end = TestResponses.test_a_new_status_word_is_unknown_and_not_an_end


@pytest.fixture
def batches(sandbox: Sandbox) -> OpenAIBatches:  # noqa: F811
    return OpenAIBatches(account(f"{sandbox.url}/openai"))


def start(provider: OpenAIBatches, *inputs: dict[str, Any], **options: Any) -> list[JobRef]:
    jobs = [NewJob(str(uuid.uuid4()), given) for given in inputs]
    started = provider.start_batch("scoring", jobs, ProviderCall(options=options or OPTIONS))
    return [JobRef(job.job_id, "scoring", job.item_key, job.batch_id) for job in started]


def ended(provider: OpenAIBatches, job: JobRef) -> ProviderUpdate:
    from tasks.tests.drive import until_true

    until_true(lambda: provider.status(job).status in batch_payloads.ENDS)
    return provider.status(job)


# --- every documented word ---------------------------------------------------------------------------------------


def test_every_documented_status_and_event_has_its_meaning() -> None:
    """The lists are those of OpenAI's own client."""
    from typing import get_args

    from openai.types import Batch
    from openai.types.responses import ResponseStatus
    from openai.types.webhooks import UnwrapWebhookEvent

    assert set(payloads.RESPONSE_STATUSES) == set(get_args(ResponseStatus))
    assert set(payloads.BATCH_STATUSES) == set(get_args(Batch.model_fields["status"].annotation))
    union = get_args(get_args(UnwrapWebhookEvent)[0])
    types = {word for event in union for word in get_args(event.model_fields["type"].annotation)}
    ours = {f"{thing}.{word}" for thing, words in payloads.EVENTS.items() for word in words}
    assert ours == {word for word in types if word.startswith(("response.", "batch."))}


@pytest.mark.parametrize(
    "body", [b'{"type": "batch.completed"}', b'{"type": 7, "data": {"id": "x"}}', event("batch.completed", "")]
)
def test_an_event_without_a_type_or_a_job_is_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        payloads.parse(body)


# --- responses ---------------------------------------------------------------------------------------------------


def response(**more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "status": "completed", **more}


def said(text: str, kind: str = "output_text") -> list[Any]:
    part = {"type": kind, "text": text} if kind == "output_text" else {"type": kind, "refusal": text}
    return [{"type": "reasoning"}, {"type": "message", "content": [part]}]


def test_a_failure_says_whether_the_same_input_would_fail_again() -> None:
    passing = response(status="failed", error={"code": "server_error", "message": "Broken."})
    lasting = response(status="failed", error={"code": "invalid_prompt", "message": "No."})
    cut = response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    found = [payloads.response_update(one) for one in (passing, lasting, cut)]
    assert [one.status for one in found] == [JobStatus.FAILED] * 3
    assert [one.error_code for one in found] == ["server_error", "invalid_prompt", "max_output_tokens"]
    assert [one.is_permanent for one in found] == [False, True, True]


def test_a_response_names_the_start_that_it_was() -> None:
    assert payloads.response_update(response(metadata={"roundtrip": "token-1"})).reference == "token-1"
    assert payloads.response_update(response(metadata=None)).reference == ""


def test_an_answer_is_read_with_or_without_its_fence() -> None:
    good = '{"score": 7, "reasons": []}'
    for text in (good, f"```json\n{good}\n```", f" {good}\n"):
        assert payloads.result(response(output=said(text)), "scoring").value == {"score": 7, "reasons": []}


@pytest.mark.parametrize(
    ("output", "raw"),
    [
        (said("Sure! Here is your score: 7"), b"Sure! Here is your score: 7"),
        (said('{"points": 7}'), b'{"points": 7}'),
        (said("[1]"), b"[1]"),
        (said("I cannot help with that.", "refusal"), b"I cannot help with that."),
    ],
)
def test_an_answer_that_cannot_be_used_is_kept(output: Any, raw: bytes) -> None:
    with pytest.raises(BadAnswer) as caught:
        payloads.result(response(output=output), "scoring")
    assert caught.value.raw == raw


def test_a_response_without_an_answer_yet_is_not_there_and_one_that_failed_is_gone() -> None:
    with pytest.raises(NotThere) as caught:
        payloads.result(response(status="in_progress"), "scoring")
    assert not isinstance(caught.value, Gone)
    with pytest.raises(Gone):
        payloads.result(response(status="cancelled"), "scoring")


@pytest.mark.parametrize("model", ["", "no-such-model"])
def test_without_a_model_nothing_is_started_and_a_person_is_asked(sandbox: Sandbox, model: str) -> None:  # noqa: F811
    provider = OpenAIResponses(account(f"{sandbox.url}/openai"))
    with pytest.raises(ProviderDenied):
        provider.start("scoring", NewJob("r", INPUT), ProviderCall(options={"model": model}))


def test_a_running_response_is_cancelled(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    provider = OpenAIResponses(account(f"{sandbox.url}/openai"))
    job = provider.start("scoring", NewJob("r", INPUT), ProviderCall(options=OPTIONS))
    assert provider.cancel(JobRef(job.job_id)).status == JobStatus.CANCELLED


# --- batches -----------------------------------------------------------------------------------------------------


def test_all_items_of_a_batch_share_a_job_and_each_has_its_result(batches: OpenAIBatches) -> None:
    jobs = start(batches, INPUT, {"business": {"name": "Café", "rating": 4.9}})
    assert len({job.job_id for job in jobs}) == 1
    assert ended(batches, jobs[0]).means_all_items
    found = dict(batches.results(jobs[0]))
    assert set(found) == {job.item_key for job in jobs}
    assert all(isinstance(one, Result) and one.value["score"] > 0 for one in found.values())
    assert batches.result(jobs[1]).value == found[jobs[1].item_key].value


def test_an_upload_that_was_cut_started_nothing_and_may_be_made_again(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(start_timeout=1.0, hang_ms=2000)
    hasty = OpenAIBatches(account(f"{sandbox.url}/openai"), call_seconds=0.3)
    with pytest.raises(ProviderUnavailable) as caught:
        start(hasty, INPUT)
    assert "no batch was made of it" in caught.value.detail
    sandbox.faults(start_timeout=0)
    assert list(hasty._newest(None)) == []


def test_a_batch_whose_answer_was_cut_is_found_by_each_of_its_items(
    sandbox: Sandbox,  # noqa: F811
    batches: OpenAIBatches,
    monkeypatch: Any,
) -> None:
    uploaded = batches._upload(b"", "x")  # the upload arrives; what is cut is the second step
    hasty = OpenAIBatches(account(f"{sandbox.url}/openai"), call_seconds=0.3)
    upload = batches._upload
    monkeypatch.setattr(hasty, "_upload", upload_then(upload, sandbox))
    jobs = [NewJob(str(uuid.uuid4()), INPUT) for _ in range(3)]
    with pytest.raises(OutcomeUnknown):
        hasty.start_batch("scoring", jobs, ProviderCall(options=OPTIONS))
    sandbox.faults(start_timeout=0)
    found = batches.list_jobs(references=[*(job.reference for job in jobs), str(uuid.uuid4())])
    assert {one.reference for one in found} == {job.reference for job in jobs}
    assert {one.update.item_key for one in found} == {job.reference for job in jobs}
    assert len({one.batch_id for one in found}) == 1 and uploaded


def upload_then(upload: Any, sandbox: Sandbox) -> Any:  # noqa: F811
    def both(content: bytes, name: str) -> str:
        file_id = upload(content, name)
        sandbox.faults(start_timeout=1.0, hang_ms=2000)
        return file_id

    return both


def test_the_metadata_of_the_largest_batch_keep_within_openais_bounds() -> None:
    kept = batch_payloads.metadata([str(uuid.uuid4()) for _ in range(batch_payloads.MOST_ITEMS)])
    assert len(kept) == 16 and max(map(len, kept.values())) == 512 and max(map(len, kept)) <= 64
    assert kept["roundtrip"] == "960"


def test_of_an_expired_batch_what_was_done_is_kept(batches: OpenAIBatches, sandbox: Sandbox) -> None:  # noqa: F811
    jobs = start(batches, INPUT, model="too-slow")
    update = ended(batches, jobs[0])
    assert (update.raw_status, update.status) == ("expired", JobStatus.SUCCEEDED)
    assert batches.result(jobs[0]).value["score"] > 0
    with pytest.raises(Gone):
        batches.result(JobRef(jobs[0].job_id, "scoring", "not-in-it"))


def test_an_expired_batch_of_which_nothing_was_done_has_failed() -> None:
    update = batch_payloads.update({"id": "batch_1", "status": "expired"})
    assert (update.status, update.error_code) == (JobStatus.FAILED, "batch_expired")
    assert batch_payloads.update({"id": "b", "status": "cancelled"}).status == JobStatus.CANCELLED
    partly = batch_payloads.update({"id": "b", "status": "cancelled", "output_file_id": "f"})
    assert partly.status == JobStatus.SUCCEEDED


def test_a_batch_that_was_refused_says_which_line() -> None:
    error = {"code": "invalid_json_line", "line": 3, "message": "Not JSON."}
    update = batch_payloads.update({"id": "batch_1", "status": "failed", "errors": {"data": [error]}})
    assert (update.error_code, update.error_text) == ("invalid_json_line", "Not JSON. (line 3)")


def test_one_item_of_several_cannot_be_cancelled_alone_and_a_batch_of_one_can(
    batches: OpenAIBatches,
    sandbox: Sandbox,  # noqa: F811
) -> None:
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    several = start(batches, INPUT, INPUT)
    assert batches.cancel(several[0]).raw_status == "validating"
    assert batches.cancel(JobRef(several[0].job_id, "scoring")).raw_status in ("cancelling", "cancelled")
    (alone,) = start(batches, INPUT)
    assert batches.cancel(alone).raw_status in ("cancelling", "cancelled")
    assert ended(batches, alone).status == JobStatus.SUCCEEDED  # its fate is in the error file
    ((item_key, found),) = batches.results(alone)
    assert item_key == alone.item_key and isinstance(found, ItemFailed) and not found.is_permanent


FILTERED = response(status="incomplete", incomplete_details={"reason": "content_filter"})


def line(**more: Any) -> bytes:
    return json.dumps({"id": "batch_req_1", "custom_id": "item-1", **more}).encode()


@pytest.mark.parametrize(
    ("more", "error", "is_permanent"),
    [
        ({"error": {"code": "batch_expired", "message": "Too late."}}, "batch_expired", False),
        ({"error": {"code": "odd", "message": "No."}}, "odd", True),
        ({"response": {"status_code": 400, "body": {"error": {"code": "bad", "message": "No."}}}}, "bad", True),
        ({"response": {"status_code": 500, "body": {"error": {"type": "server", "message": "B."}}}}, "server", False),
        ({"response": {"status_code": 429, "body": {}}}, "", False),
        ({"response": {"status_code": 200, "body": FILTERED}}, "content_filter", True),
    ],
)
def test_an_item_that_failed_is_its_own_trouble(more: dict[str, Any], error: str, is_permanent: bool) -> None:
    item_key, found = batch_payloads.item(line(**more), True, "scoring")
    assert item_key == "item-1" and isinstance(found, ItemFailed)
    assert (found.said, found.is_permanent) == (error, is_permanent)


def test_lines_that_cannot_be_read_name_their_item_where_they_can() -> None:
    cut = batch_payloads.item(line(response={"x": "y" * 5000})[:1000], False, "scoring")
    assert cut[0] == "item-1" and isinstance(cut[1], AnswerTooLarge)
    broken = batch_payloads.item(b'{"custom_id": "item-1", "resp', True, "scoring")
    assert broken[0] == "item-1" and isinstance(broken[1], BadAnswer) and broken[1].raw
    assert isinstance(batch_payloads.item(b"[]", True, "scoring")[1], BadAnswer)
    assert isinstance(batch_payloads.item(line(), True, "scoring")[1], BadAnswer)
