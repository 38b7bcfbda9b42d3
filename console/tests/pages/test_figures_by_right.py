"""How many there are is told only to whoever may see what is counted: sidebar, start page, API, metrics."""

import pytest
from django.test import Client

from console.tests.conftest import allow, make_batch, make_delivery, make_endpoint

pytestmark = pytest.mark.django_db
TASKS, DELIVERIES = "tasks.view_task", "delivery.view_delivery"


def page_of(user, path="/"):
    client = Client()
    client.force_login(user)
    return client.get(path)


@pytest.fixture
def dead():
    make_batch(["dead_letter"] * 3)
    endpoint = make_endpoint("a-partner-by-name", breaker_state="open")
    for number in range(4):
        make_delivery(endpoint, "dead_letter", fingerprint=f"f{number}")


@pytest.mark.parametrize(
    ("rights", "number"), [((), None), ((TASKS,), "3"), ((DELIVERIES,), "4"), ((TASKS, DELIVERIES), "7")]
)
def test_the_badge_counts_the_sides_that_a_user_may_see(staff, dead, rights, number):
    from console.pages import badges

    user = allow(staff, *rights)
    assert badges.dead_letters(user) == number
    assert badges.may_see_dead_letters(user) is (number is not None)
    assert ('href="/dead-letters/"' in page_of(user).content.decode()) is (number is not None)


@pytest.mark.parametrize(("right", "shown"), [(TASKS, "tasks"), (DELIVERIES, "deliveries")])
def test_the_start_page_shows_one_side_to_whoever_may_see_one(staff, dead, right, shown):
    answer = page_of(allow(staff, right))
    stats = answer.context["stats"]
    assert set(stats) & {"tasks", "deliveries"} == {shown}
    text = answer.content.decode()
    assert ("a-partner-by-name" in text) is (shown == "deliveries")
    assert ("Last batches" in text) is (shown == "tasks")


def test_the_apis_figures_of_tasks_need_the_right_for_tasks(staff, dead):
    assert "tasks" not in page_of(allow(staff, DELIVERIES), "/api/v1/stats/").json()
    assert page_of(staff, "/metrics/").status_code == 401
    user = allow(staff, TASKS)
    assert page_of(user, "/api/v1/stats/").json()["tasks"]["dead_letter"] == 3
    assert page_of(user, "/metrics/").status_code == 200


def test_a_key_for_statistics_still_gets_those_of_tasks(dead):
    from kernel.auth import create_key

    token = create_key("figures", ["deliveries:read"])[1]
    client = Client(headers={"authorization": f"Bearer {token}"})
    assert client.get("/api/v1/stats/").json()["tasks"]["dead_letter"] == 3
    assert client.get("/metrics/").status_code == 200
