"""The Replicate adapter: conformance against the emulation its own client works with, and its contract's corners."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.kinds import acceptance
from tasks.providers.base import BadAnswer, Gone, JobRef, NotThere, ProviderDenied, ProviderUpdate
from tasks.providers.replicate import ReplicateProvider, payloads
from tasks.providers.replicate.client import _model_input, _place
from tasks.states import JobStatus
from tasks.tests.conftest import Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.emulated import DEAD, at, begun, changed, expire, finished, fixture
from tasks.tests.provider_conformance import ProviderConformance

BUSINESS = {"business": {"name": "Bar Mleczny", "place": "Łódź"}}
MODEL = {"model": "meta/meta-llama-3-8b-instruct"}
STARTING, SUCCEEDED = fixture(__file__, "starting.json"), fixture(__file__, "succeeded.json")
FAILED = fixture(__file__, "failed.json")
PREDICTION = "ufawqhfynnddngldkgtslldrkq"


@pytest.fixture
def provider(sandbox: Sandbox) -> ReplicateProvider:  # noqa: F811
    return at(f"{sandbox.url}/replicate", ReplicateProvider)


class TestReplicate(ProviderConformance):
    kind = "scoring"
    input = BUSINESS
    options = MODEL
    bad_options = {**MODEL, "input": {}}
    callbacks = [
        (STARTING, [ProviderUpdate(PREDICTION, status=JobStatus.QUEUED, raw_status="starting")]),
        (
            SUCCEEDED,
            [
                ProviderUpdate(
                    PREDICTION,
                    status=JobStatus.SUCCEEDED,
                    raw_status="succeeded",
                    happened_at=datetime(2026, 4, 26, 22, 13, 6, 580379, UTC),
                )
            ],
        ),
        (
            FAILED,
            [
                ProviderUpdate(
                    PREDICTION,
                    status=JobStatus.FAILED,
                    raw_status="failed",
                    error_code="failed",
                    error_text="CUDA out of memory.",
                    happened_at=datetime(2026, 4, 26, 22, 13, 7, 580379, UTC),
                )
            ],
        ),
    ]
    junk = [b'{"type": "completed", "data": {}}', b'{"id": "x", "status": 7}', b'{"id": "", "status": "failed"}']

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> ReplicateProvider:  # noqa: F811
        return at(f"{sandbox.url}/replicate", ReplicateProvider, key="wrong")

    @pytest.fixture
    def dead_provider(self) -> ReplicateProvider:
        return at(DEAD, ReplicateProvider)


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("starting", JobStatus.QUEUED),
        ("processing", JobStatus.RUNNING),
        ("succeeded", JobStatus.SUCCEEDED),
        ("failed", JobStatus.FAILED),
        ("canceled", JobStatus.CANCELLED),
        ("cancelled", JobStatus.CANCELLED),
        ("aborted", JobStatus.FAILED),
        ("booting", JobStatus.UNKNOWN),
    ],
)
def test_every_documented_status_is_mapped_and_no_other_is_guessed(word: str, means: JobStatus) -> None:
    update = payloads.update({"id": PREDICTION, "status": word})
    assert (update.status, update.raw_status) == (means, word)
    assert bool(update.error_text) is (word == "aborted")


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"data_removed": True, "output": None}, Gone, "keeps it for an hour"),
        ({"data_removed": True}, Gone, "keeps it for an hour"),
        ({"output": None}, NotThere, "no output yet"),
        ({"status": "processing", "output": None}, NotThere, "processing"),
        ({"status": "canceled"}, Gone, "canceled"),
        ({"status": "failed"}, Gone, "failed"),
        ({"status": "booting"}, NotThere, "booting"),
    ],
)
def test_a_null_is_never_a_result(changes: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why) as caught:
        payloads.output(json.loads(changed(SUCCEEDED, **changes)))
    assert type(caught.value) is error


def test_data_that_was_removed_is_gone_and_a_success_no_longer_fetched(
    provider: ReplicateProvider,
    sandbox: Sandbox,  # noqa: F811
) -> None:
    job = finished(provider, JobRef(begun(provider, "scoring", BUSINESS, **MODEL).job_id, "scoring"))
    expire(sandbox, "replicate", job.job_id)
    assert provider.status(job).status == JobStatus.SUCCEEDED
    with pytest.raises(Gone):
        provider.result(job)


@pytest.mark.parametrize("kind", ["scoring", "email_generation"])
def test_what_a_language_model_writes_is_a_result_that_the_kind_takes(provider: ReplicateProvider, kind: str) -> None:
    job = finished(provider, JobRef(begun(provider, kind, BUSINESS, **MODEL).job_id, kind))
    assert getattr(acceptance, kind)(BUSINESS, provider.result(job).value) == ""


def test_any_other_output_is_kept_under_its_name(provider: ReplicateProvider) -> None:
    options = {**MODEL, "input": {"image": "{business.name}"}}
    job = finished(provider, JobRef(begun(provider, "posters", BUSINESS, **options).job_id, "posters"))
    assert provider.result(job).value == {"image": "Bar Mleczny"}


def test_a_text_that_is_no_json_is_a_bad_answer_of_our_own_kinds_and_kept_of_others(monkeypatch: Any) -> None:
    provider = at(DEAD, ReplicateProvider)

    class Answer:
        content = SUCCEEDED

    monkeypatch.setattr(provider, "answer", lambda *_, **__: Answer())
    with pytest.raises(BadAnswer):
        provider.result(JobRef(PREDICTION, "scoring"))
    assert provider.result(JobRef(PREDICTION, "greetings")).value == {"output": "hello Alice"}


def test_many_jobs_are_found_in_the_listing_through_all_its_pages(
    provider: ReplicateProvider, monkeypatch: Any
) -> None:
    ids = [begun(provider, "echo", {"n": n}, **MODEL).job_id for n in range(105)]
    asked: list[str] = []
    whole = provider.document

    def document(purpose: Any, path: str, **more: Any) -> Any:
        asked.append(path)
        return whole(purpose, path, **more)

    monkeypatch.setattr(provider, "document", document)
    listed = provider.list_jobs(jobs=[JobRef(job_id) for job_id in [*ids[:11], "nosuch"]])
    assert [job.update.job_id for job in listed] == ids[:11]
    assert asked == ["/v1/predictions", "/v1/predictions", "/v1/predictions/nosuch"]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"model": "meta/llama"}, "/v1/models/meta/llama/predictions"),
        ({"model": "meta/llama", "deployment": "us/ours"}, "/v1/deployments/us/ours/predictions"),
        ({"model": "meta/llama", "version": "5c7d"}, "/v1/predictions"),
        ({"model": "meta/../x"}, "/v1/models/meta/..%2Fx/predictions"),
    ],
)
def test_the_options_say_where_a_prediction_begins(options: dict[str, str], path: str) -> None:
    assert _place(options) == path


@pytest.mark.parametrize("options", [{}, {"model": " "}, {"model": 7}, {"model": "llama"}, {"deployment": "ours"}])
def test_options_without_a_model_are_a_persons_matter(options: dict[str, Any]) -> None:
    with pytest.raises(ProviderDenied, match="model"):
        _place(options)
    assert ReplicateProvider(at(DEAD, ReplicateProvider).account).lacks("scoring", options)


def test_our_kinds_are_asked_for_in_words_and_others_with_their_input() -> None:
    asked = _model_input("scoring", BUSINESS, {"max_tokens": 100})
    assert asked["prompt"].endswith(json.dumps(BUSINESS, ensure_ascii=False)) and asked["max_tokens"] == 100
    assert _model_input("posters", BUSINESS, {}) == BUSINESS
    drawn = _model_input("posters", BUSINESS, {"prompt": "Draw $input"})
    assert drawn == {"prompt": f"Draw {json.dumps(BUSINESS, ensure_ascii=False)}"}
    assert _model_input("scoring", BUSINESS, {"input": {"text": "{business.name}"}}) == {"text": "Bar Mleczny"}


def test_a_model_that_is_not_there_is_a_persons_matter(provider: ReplicateProvider) -> None:
    with pytest.raises(ProviderDenied, match="could not be found"):
        begun(provider, "scoring", BUSINESS, model="nobody/knows")
