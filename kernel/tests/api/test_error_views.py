"""What no view answers is still answered in the API's own words, and no address with a NUL reaches a view."""

import pytest
from django.test import Client
from django.urls import path


def broken(request):
    raise RuntimeError("s3cret")


handler404 = "kernel.api.error_views.not_found"  # this module stands in for the site's addresses
handler500 = "kernel.api.error_views.server_error"
urlpatterns = [path("api/v1/broken/", broken), path("broken/", broken)]


@pytest.fixture
def client():
    return Client(raise_request_exception=False)


@pytest.mark.urls(__name__)
def test_a_fault_under_the_api_is_a_problem_that_names_the_log_line(client):
    answer = client.get("/api/v1/broken/", headers={"x-correlation-id": "journey-4711"})
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "internal_error"
    assert "journey-4711" in answer.json()["detail"]
    assert "s3cret" not in answer.content.decode()
    assert client.get("/broken/")["Content-Type"].startswith("text/html")


@pytest.mark.urls(__name__)
def test_an_address_under_the_api_that_does_not_exist_is_a_problem(client):
    answer = client.get("/api/v1/nothing/here/")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert client.get("/nothing/")["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    "address",
    ["/api/v1/dead-letters/?kind=%00", "/api/v1/tasks/?reference=a%00b", "/batches/?kind=%00", "/api/v1/kinds/%00/"],
)
def test_a_nul_in_an_address_is_refused_before_any_view(client, address):
    answer = client.get(address)
    assert (answer.status_code, answer.json()["code"]) == (400, "nul_in_address")
    assert answer["Content-Security-Policy"]


@pytest.mark.parametrize("address", ["/api/v1/tasks/", "/api/v1/nothing/", "/webhooks/sandbox/"])
@pytest.mark.parametrize("host", ["elsewhere.example", "a b", "[::1", "x" * 300])
def test_a_wrong_host_under_the_api_is_a_problem(client, address, host):
    answer = client.get(address, headers={"host": host})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert answer.json()["code"] == "unknown_host"
    assert client.get("/", headers={"host": host})["Content-Type"].startswith("text/html")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/problem+json", 401),
        ("text/plain;q=0.5, application/problem+json; q=0.1", 401),
        ("application/vnd.api+json", 401),
        ("application/json", 401),
        ("*/*", 401),
        ("text/csv", 406),
    ],
)
def test_whoever_accepts_json_of_some_sort_gets_json(client, accept, status):
    answer = client.get("/api/v1/tasks/", headers={"accept": accept})
    assert (answer.status_code, answer.json()["status"]) == (status, status)
