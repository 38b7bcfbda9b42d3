"""Apify's own client against the emulation: start, wait, read, page, list, abort, and the webhook of a run."""

from __future__ import annotations

from typing import Any

import pytest
from apify_client import ApifyClient
from apify_client.errors import InvalidRequestError, NotFoundError, UnauthorizedError

from sandbox.tests.emulated.conftest import KEY, Process, body

SEARCH = {"searchStringsArray": ["piekarnia"], "locationQuery": "Łódź, PL", "maxCrawledPlacesPerSearch": 3}
NUMBERS = "roundtrip/numbers"


@pytest.fixture
def client(emulated: Process) -> ApifyClient:
    return ApifyClient(KEY, api_url=f"{emulated.provider}/apify", max_retries=0)


def test_an_actor_is_called_and_its_places_are_read(client: ApifyClient) -> None:
    run = client.actor("compass/crawler-google-places").call(run_input=SEARCH, logger=None)
    assert run is not None and run.status == "SUCCEEDED" and run.finished_at is not None
    items = client.dataset(run.default_dataset_id).list_items().items
    assert len(items) == 3 and items[0]["city"] == "Łódź" and items[0]["location"]["lat"]


def test_a_dataset_is_paged_to_its_end_though_its_pages_are_short(client: ApifyClient) -> None:
    run = client.actor(NUMBERS).start(run_input={"count": 25, "page": 10}, wait_for_finish=10)
    page = client.run(run.id).dataset().list_items(limit=1000)
    assert (page.count, page.total) == (10, 25)
    whole = client.run(run.id).dataset().iterate_items(chunk_size=1000)
    assert [item["number"] for item in whole] == list(range(25))


def test_runs_are_listed_with_who_began_them(client: ApifyClient) -> None:
    begun = [client.actor(NUMBERS).start(run_input={}).id for _ in range(3)]
    listed = client.runs().list(desc=True, limit=2)
    assert [run.id for run in listed.items] == [begun[2], begun[1]] and listed.total == 3
    assert all("ApifyClient" in (run.meta.user_agent or "") for run in listed.items)


def test_a_run_is_aborted_and_an_aborted_one_stays_so(client: ApifyClient, emulated: Process) -> None:
    emulated.faults(min_ms=5000, max_ms=5000)
    run = client.actor(NUMBERS).start(run_input={})
    assert run.status == "READY"
    assert client.run(run.id).abort().status == "ABORTED"
    assert client.run(run.id).abort().status == "ABORTED"


def test_the_webhook_of_a_run_brings_its_event_its_run_and_our_header(client: ApifyClient, emulated: Process) -> None:
    hook = {
        "event_types": ["ACTOR.RUN.SUCCEEDED"],
        "request_url": f"{emulated.receiver}/ok/apify",
        "headers_template": '{"Authorization": "Bearer hook_secret"}',
    }
    run = client.actor(NUMBERS).start(run_input={}, webhooks=[hook])
    (entry,) = emulated.told("/ok/apify")
    said = body(entry)
    assert (said["eventType"], said["eventData"]["actorRunId"]) == ("ACTOR.RUN.SUCCEEDED", run.id)
    assert said["resource"]["status"] == "SUCCEEDED"
    assert entry["headers"]["authorization"] == "Bearer hook_secret"
    assert entry["headers"]["x-apify-webhook-dispatch-id"]


@pytest.mark.parametrize(
    ("actor", "given", "error"),
    [("compass/crawler-google-places", {}, InvalidRequestError), ("nobody/knows", SEARCH, NotFoundError)],
)
def test_refusals_are_the_clients_own_errors(client: ApifyClient, actor: str, given: Any, error: Any) -> None:
    with pytest.raises(error) as caught:
        client.actor(actor).start(run_input=given)
    assert caught.value.type in ("invalid-input", "record-not-found")


def test_a_wrong_token_is_unauthorized_and_a_missing_run_none(client: ApifyClient, emulated: Process) -> None:
    assert client.run("nosuchrun00000000").get() is None
    with pytest.raises(UnauthorizedError):
        ApifyClient("wrong", api_url=f"{emulated.provider}/apify", max_retries=0).runs().list()
