"""Outscraper's own client against the emulation; its hosts are constants, and are put where the emulation is."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from outscraper import OutscraperClient, transport

from sandbox.tests.conftest import until
from sandbox.tests.emulated.conftest import KEY, Process

QUERY = "piekarnia, Łódź, PL"


@pytest.fixture
def client(emulated: Process, monkeypatch: pytest.MonkeyPatch) -> OutscraperClient:
    monkeypatch.setattr(transport, "API_URLS", [f"{emulated.provider}/outscraper"])
    return OutscraperClient(KEY)


def finished(client: OutscraperClient, name: str) -> dict[str, Any]:
    return until(lambda: (said := client.get_request_archive(name))["status"] != "Pending" and said)


def test_a_search_is_answered_at_once_where_nobody_asks_for_more(client: OutscraperClient) -> None:
    (places,) = client.google_maps_search(QUERY, limit=3)
    assert len(places) == 3 and places[0]["city"] == "Łódź" and places[0]["latitude"]


def test_a_search_is_begun_and_its_places_are_read_by_its_id(client: OutscraperClient) -> None:
    begun = client.google_maps_search([QUERY, "fryzjer, Gdynia, PL"], limit=2, async_request=True)
    assert begun["status"] == "Pending" and begun["id"]
    said = finished(client, begun["id"])
    assert said["status"] == "Success" and [len(places) for places in said["data"]] == [2, 2]


def test_requests_are_listed_by_their_type_and_by_pages(client: OutscraperClient) -> None:
    names = [client.google_maps_search(QUERY, limit=1, async_request=True)["id"] for _ in range(3)]
    for name in names:
        finished(client, name)
    assert [row["id"] for row in client.get_requests_history("finished", page_size=2)] == [names[2], names[1]]
    assert [row["id"] for row in client.get_requests_history("finished", skip=2)] == [names[0]]
    assert client.get_requests_history("running") == []


def test_the_webhook_is_signed_with_the_api_key(client: OutscraperClient, emulated: Process) -> None:
    hook = f"{emulated.receiver}/ok/outscraper"
    begun = client.google_maps_search(QUERY, limit=1, async_request=True, webhook=hook)
    (entry,) = emulated.told("/ok/outscraper")
    assert f'"id": "{begun["id"]}"' in entry["body"] and '"status": "SUCCESS"' in entry["body"]
    digest = hmac.new(KEY.encode(), entry["body"].encode(), hashlib.sha256).hexdigest()
    assert entry["headers"]["x-hub-signature-256"] == f"sha256={digest}"


def test_an_expired_result_reads_pending_again(client: OutscraperClient, emulated: Process) -> None:
    name = client.google_maps_search(QUERY, limit=1, async_request=True)["id"]
    assert finished(client, name)["status"] == "Success"
    emulated.expire("outscraper", name)
    assert client.get_request_archive(name) == {"id": name, "status": "Pending"}


def test_a_wrong_key_is_refused(emulated: Process, client: OutscraperClient) -> None:
    with pytest.raises(Exception, match="401"):
        OutscraperClient("wrong").get_requests_history()
