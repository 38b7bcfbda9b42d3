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
