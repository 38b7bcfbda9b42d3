"""The Apify adapter: conformance against the emulation its own client works with, and its contract's corners."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tasks.providers.answers import Call
from tasks.providers.apify import ApifyProvider, payloads
from tasks.providers.apify.client import MARK
from tasks.providers.base import (
    BadAnswer,
    Gone,
    JobRef,
    NewJob,
    NotThere,
    OutcomeUnknown,
    ProviderCall,
    ProviderDenied,
    ProviderThrottled,
    ProviderUpdate,
    Unparseable,
)
from tasks.states import JobStatus
from tasks.tests.conftest import SECRET, Sandbox, sandbox, sandbox_process  # noqa: F401
from tasks.tests.emulated import DEAD, at, begun, changed, expire, finished, fixture
from tasks.tests.provider_conformance import ProviderConformance

SEARCH = {"trade": "piekarnia", "place": "Łódź", "country": "PL", "limit": 3}
MAPS = {"actor": "compass/crawler-google-places"}
NUMBERS = {"actor": "roundtrip/numbers"}
SUCCEEDED, TIMED_OUT = fixture(__file__, "run_succeeded.json"), fixture(__file__, "run_timed_out.json")
RUN = "HG7ML7M8z78YcAPEB"


@pytest.fixture
def provider(sandbox: Sandbox) -> ApifyProvider:  # noqa: F811
    return at(f"{sandbox.url}/apify", ApifyProvider)


class TestApify(ProviderConformance):
    kind = "map_search"
    input = SEARCH
    options = MAPS
    bad_options = {**MAPS, "input": {"locationQuery": "{place}"}}
    callbacks = [
        (
            SUCCEEDED,
            [
                ProviderUpdate(
                    RUN,
                    status=JobStatus.SUCCEEDED,
                    raw_status="SUCCEEDED",
                    happened_at=datetime(2026, 5, 1, 7, 35, 9, 202000, UTC),
                )
            ],
        ),
        (
            TIMED_OUT,
            [
                ProviderUpdate(
                    RUN,
                    status=JobStatus.FAILED,
                    raw_status="TIMED-OUT",
                    error_code="timed_out",
                    error_text="Actor run timed out. Exit code 137.",
                    happened_at=datetime(2026, 5, 1, 7, 40, 9, 202000, UTC),
                )
            ],
        ),
    ]
    junk = [
        b'{"eventType": 7}',
        b'{"eventType": "ACTOR.RUN.SUCCEEDED"}',
        b'{"eventType": "ACTOR.RUN.FAILED", "eventData": 1}',
    ]

    @pytest.fixture
    def denied_provider(self, sandbox: Sandbox) -> ApifyProvider:  # noqa: F811
        return at(f"{sandbox.url}/apify", ApifyProvider, key="wrong")

    @pytest.fixture
    def dead_provider(self) -> ApifyProvider:
        return at(DEAD, ApifyProvider)


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("READY", JobStatus.QUEUED),
        ("RUNNING", JobStatus.RUNNING),
        ("TIMING-OUT", JobStatus.RUNNING),
        ("ABORTING", JobStatus.RUNNING),
        ("SUCCEEDED", JobStatus.SUCCEEDED),
        ("FAILED", JobStatus.FAILED),
        ("TIMED-OUT", JobStatus.FAILED),
        ("TIMED_OUT", JobStatus.FAILED),
        ("ABORTED", JobStatus.CANCELLED),
        ("MELTED", JobStatus.UNKNOWN),
    ],
)
def test_every_documented_status_is_mapped_and_no_other_is_guessed(word: str, means: JobStatus) -> None:
    update = payloads.update({"id": RUN, "status": word})
    assert (update.status, update.raw_status) == (means, word)


@pytest.mark.parametrize(
    ("event", "means"),
    [
        ("ACTOR.RUN.CREATED", JobStatus.QUEUED),
        ("ACTOR.RUN.SUCCEEDED", JobStatus.SUCCEEDED),
        ("ACTOR.RUN.FAILED", JobStatus.FAILED),
        ("ACTOR.RUN.TIMED_OUT", JobStatus.FAILED),
        ("ACTOR.RUN.ABORTED", JobStatus.CANCELLED),
        ("ACTOR.RUN.RESURRECTED", JobStatus.RUNNING),
    ],
)
def test_every_documented_event_is_read_also_where_it_shows_no_run(event: str, means: JobStatus) -> None:
    said = payloads.parse(json.dumps({"eventType": event, "eventData": {"actorRunId": RUN}}).encode())
    assert [(update.job_id, update.status) for update in said.updates] == [(RUN, means)]


def test_the_runs_own_status_counts_and_not_the_events_name() -> None:
    run = {**json.loads(SUCCEEDED)["resource"], "status": "RUNNING", "finishedAt": None}
    (update,) = payloads.parse(changed(SUCCEEDED, eventType="ACTOR.RUN.RESURRECTED", resource=run)).updates
    assert (update.status, update.raw_status, update.happened_at) == (JobStatus.RUNNING, "RUNNING", None)


@pytest.mark.parametrize("event", ["TEST", "ACTOR.BUILD.SUCCEEDED", "ACTOR.RUN.PAUSED"])
def test_an_event_that_speaks_of_no_run_is_named_and_changes_nothing(event: str) -> None:
    said = payloads.parse(changed(SUCCEEDED, eventType=event))
    assert (said.updates, said.unknown_event) == ((), event)


def test_a_map_search_is_sent_as_the_actor_wants_it_and_its_items_come_back_as_places(provider: ApifyProvider) -> None:
    job = finished(provider, JobRef(begun(provider, "map_search", SEARCH, **MAPS).job_id, "map_search", options=MAPS))
    found = provider.result(job)
    assert found.note == "" and len(found.value["places"]) == 3
    place = found.value["places"][0]
    assert {"id", "name", "category", "address", "place", "country", "lat", "lon", "rating", "reviews"} <= place.keys()
    assert (place["place"], place["country"]) == ("Łódź", "PL")


def test_another_kind_has_the_items_as_its_result_and_all_pages_of_them(provider: ApifyProvider) -> None:
    given = {"count": 25, "page": 10}
    job = finished(provider, JobRef(begun(provider, "counting", given, **NUMBERS).job_id, "counting"))
    found = provider.result(job)
    assert found.value == {"items": [{"number": number} for number in range(25)]} and found.note == ""
    assert found.raw is not None and found.raw.count(b"\n") == 2


@pytest.mark.parametrize(("count", "says"), [(25, 30), (25, 12)])
def test_a_total_that_disagrees_is_shown_and_nothing_is_left_out(
    provider: ApifyProvider, count: int, says: int
) -> None:
    given = {"count": count, "page": 10, "says": says}
    job = finished(provider, JobRef(begun(provider, "counting", given, **NUMBERS).job_id, "counting"))
    found = provider.result(job)
    assert len(found.value["items"]) == count
    assert found.note == f"The dataset says that it has {says} items, and {count} came."


def test_an_empty_dataset_of_a_run_that_has_just_ended_is_waited_for(provider: ApifyProvider) -> None:
    job = finished(provider, JobRef(begun(provider, "counting", {"count": 0}, **NUMBERS).job_id, "counting"))
    with pytest.raises(NotThere, match="just ended"):
        provider.result(job)


def test_pages_that_together_are_too_large_are_told_as_that(provider: ApifyProvider, monkeypatch: Any) -> None:
    monkeypatch.setattr("tasks.providers.calling.MAX_RESULT_BYTES", 200)
    job = finished(provider, JobRef(begun(provider, "counting", {"count": 25, "page": 10}, **NUMBERS).job_id))
    with pytest.raises(Exception, match="200 bytes") as caught:
        provider.result(job)
    assert caught.value.code == "answer_too_large"


def test_a_dataset_that_is_gone_is_not_there(provider: ApifyProvider, sandbox: Sandbox) -> None:  # noqa: F811
    job = finished(provider, JobRef(begun(provider, "counting", {}, **NUMBERS).job_id))
    expire(sandbox, "apify", job.job_id)
    with pytest.raises(NotThere):
        provider.result(job)


def test_an_aborted_run_has_no_result(provider: ApifyProvider, sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(min_ms=5000, max_ms=5000)
    job = JobRef(begun(provider, "counting", {}, **NUMBERS).job_id)
    with pytest.raises(NotThere):
        provider.result(job)
    assert provider.cancel(job).status == JobStatus.CANCELLED
    with pytest.raises(Gone):
        provider.result(job)


def test_the_webhook_goes_with_the_start_and_shows_our_secret() -> None:
    provider = at("https://api.apify.com", ApifyProvider)
    (hook,) = json.loads(base64.b64decode(provider._webhooks("https://us.example/webhooks/map-search/apify/?ref=1")))
    assert hook["requestUrl"].endswith("?ref=1") and json.loads(hook["headersTemplate"]) == {
        "Authorization": f"Bearer {SECRET}"
    }
    assert "ACTOR.RUN.RESURRECTED" in hook["eventTypes"] and "ACTOR.RUN.CREATED" not in hook["eventTypes"]
    assert provider._webhooks("") == ""


def test_a_start_whose_answer_never_came_is_found_by_its_user_agent(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.faults(start_timeout=1.0, hang_ms=2000)
    provider = ApifyProvider(at(f"{sandbox.url}/apify", ApifyProvider).account, call_seconds=0.3)
    with pytest.raises(OutcomeUnknown):
        begun(provider, "counting", {}, **NUMBERS)
    (found,) = provider.list_jobs(references=["00000000-0000-4000-8000-000000000001"])
    assert found.update.job_id and found.update.status != JobStatus.UNKNOWN


def test_nothing_is_concluded_from_a_list_that_shows_no_user_agents(provider: ApifyProvider, monkeypatch: Any) -> None:
    begun(provider, "counting", {}, **NUMBERS)
    whole = provider.document

    def without_agents(*call: Any, **more: Any) -> Any:
        said = json.loads(json.dumps(whole(*call, **more)))
        for run in said["data"]["items"]:
            run["meta"].pop("userAgent")
        return said

    monkeypatch.setattr(provider, "document", without_agents)
    with pytest.raises(BadAnswer, match="cannot be looked for"):
        provider.list_jobs(references=["00000000-0000-4000-8000-000000000001"])


def test_many_jobs_are_found_in_the_listing_and_one_that_cannot_be_read_stands_alone(
    provider: ApifyProvider, monkeypatch: Any
) -> None:
    ids = [begun(provider, "counting", {}, **NUMBERS).job_id for _ in range(12)]
    asked: list[str] = []
    whole = provider.document

    def spoiled(purpose: Any, path: str, **more: Any) -> Any:
        asked.append(path)
        said = json.loads(json.dumps(whole(purpose, path, **more)))
        for run in said["data"]["items"]:
            run.update({"status": None} if run["id"] == ids[3] else {})
        return said

    monkeypatch.setattr(provider, "document", spoiled)
    found = {job.update.job_id: job.update for job in provider.list_jobs(jobs=[JobRef(job_id) for job_id in ids])}
    assert set(found) == set(ids) and [name for name, update in found.items() if update.problem] == [ids[3]]
    assert asked == ["/v2/actor-runs"]


def test_an_account_that_is_full_waits_and_an_actor_that_is_not_there_is_a_persons_matter(
    provider: ApifyProvider,
) -> None:
    with pytest.raises(ProviderThrottled, match="memory limit"):
        begun(provider, "counting", {}, **NUMBERS, memory=65536)
    with pytest.raises(ProviderDenied, match="Correct what the options"):
        begun(provider, "counting", {}, actor="nobody/knows")


def test_the_options_of_a_run_are_sent_along(provider: ApifyProvider, sandbox: Sandbox) -> None:  # noqa: F811
    job = begun(provider, "counting", {}, **NUMBERS, memory=256, timeout=60, build="beta")
    run = provider._run(Call.POLL, JobRef(job.job_id))
    assert (run["options"]["memoryMbytes"], run["options"]["timeoutSecs"], run["options"]["build"]) == (256, 60, "beta")
    assert run["meta"]["userAgent"] == f"{MARK}{job.reference}"


def test_a_run_that_is_no_object_is_unparseable() -> None:
    for run in (None, [], {"id": RUN}, {"id": "", "status": "READY"}, {"id": "x" * 201, "status": "READY"}):
        with pytest.raises(Unparseable):
            payloads.update(run)


def test_the_correlation_id_travels_and_the_key_is_never_repeated(provider: ApifyProvider, monkeypatch: Any) -> None:
    monkeypatch.setattr(ApifyProvider, "refusal", lambda *_: ("bad", f"no such token {provider.account.api_key}"))
    with pytest.raises(ProviderDenied) as caught:
        provider.start("counting", NewJob("r", {}), ProviderCall("", "journey", {"actor": "nobody/knows"}))
    assert provider.account.api_key not in caught.value.detail and "…" in caught.value.detail
