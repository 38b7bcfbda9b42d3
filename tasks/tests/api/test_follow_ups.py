"""Chains over the API: one POST, what follows, and the verb for what could not be made."""

import pytest

from tasks.models import Batch, FollowUp
from tasks.tests.follow_ups.ending import succeed

SEARCH = {"input": {"trade": "bar", "place": "Oslo"}}
CHAIN = [{"kind": "email_generation"}, {"kind": "scoring", "on": "succeeded"}]
URL = "/api/v1/follow-ups/"


def chained(client, **more) -> dict:
    body = {"kind": "map_search", "tasks": [SEARCH], "then": CHAIN, **more}
    response = client.post("/api/v1/batches/", body, format="json")
    assert response.status_code == 202, response.json()
    return response.json()


def end(batch: dict | str) -> None:
    number = batch if isinstance(batch, str) else batch["id"]
    succeed(*Batch.objects.get(pk=number).tasks.values_list("pk", flat=True))


def test_three_batches_by_one_post_and_each_says_what_made_it(client):
    searches = chained(client)
    assert searches["then"] == [{"kind": "email_generation", "on": "completed"}, {"kind": "scoring", "on": "succeeded"}]
    assert searches["follow_up"] is None and client.get(searches["follow_ups_url"]).json()["results"] == []
    end(searches)
    (first,) = client.get(searches["follow_ups_url"]).json()["results"]
    assert (first["state"], first["kind"], first["made_count"]) == ("made", "email_generation", 2)
    emails = client.get(f"/api/v1/batches/{first['batches'][0]}/").json()
    assert (emails["follow_up"], emails["total"]) == (first["id"], 2)
    end(emails)
    (second,) = client.get(emails["follow_ups_url"]).json()["results"]
    assert (second["parent_batch"], second["kind"], second["then"]) == (emails["id"], "scoring", None)
    end(second["batches"][0])
    assert client.get(f"{URL}?batch={second['batches'][0]}").json()["results"] == []


def test_a_single_task_is_followed(client):
    body = {"kind": "map_search", **SEARCH, "then": [{"kind": "scoring"}]}
    task = client.post("/api/v1/tasks/", body, format="json").json()
    assert task["then"] == [{"kind": "scoring", "on": "completed"}]
    succeed(int(task["id"]))
    (row,) = client.get(f"{URL}?task={task['id']}").json()["results"]
    assert (row["parent_task"], len(row["batches"])) == (task["id"], 1)


@pytest.mark.parametrize("path", ["tasks", "batches"])
def test_a_step_that_cannot_follow_is_a_400_with_its_field(client, path):
    body = {"kind": "map_search", "then": [{"kind": "scoring"}, {"kind": "map_search"}]}
    body |= SEARCH if path == "tasks" else {"tasks": [SEARCH]}
    response = client.post(f"/api/v1/{path}/", body, format="json")
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == "then.1.kind"
    assert not Batch.objects.exists()


def test_what_could_not_be_made_is_redriven_and_nothing_else_is(client, settings):
    searches = chained(client)
    url, settings.SANDBOX_PROVIDER_URL = settings.SANDBOX_PROVIDER_URL, ""
    end(searches)
    settings.SANDBOX_PROVIDER_URL = url
    (row,) = client.get(f"{URL}?state=refused").json()["results"]
    assert row["reason"] == "no_provider" and "docs/adding-a-provider.md" in row["detail"]
    assert client.post(f"{row['url']}redrive/").json()["state"] == "waiting"
    again = client.post(f"{row['url']}redrive/")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")


def test_a_bound_key_sees_only_its_own(client, client_with):
    acme = client_with("tasks:read", "tasks:write", subscriber="acme")
    end(chained(client, subscriber="umbrella"))
    end(chained(acme))
    (own,) = acme.get(URL).json()["results"]
    assert own["subscriber"] == "acme" and len(client.get(URL).json()["results"]) == 2
    other = FollowUp.objects.get(subscriber="umbrella")
    assert acme.get(f"{URL}{other.pk}/").status_code == 404
    assert acme.post(f"{URL}{other.pk}/redrive/").status_code == 404
