"""Reading tasks, batches and kinds: scopes, subscribers, filters, pages, and a constant number of queries."""

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

from tasks import kinds
from tasks.models import ExternalJob, Transition
from tasks.reading import timeline
from tasks.submit import submit, submit_batch

SEARCH = {"trade": "bakery", "place": "Łódź"}


@pytest.fixture
def rows(db):
    mine = submit_batch(
        "map_search",
        [{"input": SEARCH, "reference": f"a{n}"} for n in range(5)],
        caller="t",
        subscriber="acme",
    )
    other = submit_batch("map_search", [{"input": SEARCH}], caller="t", subscriber="umbrella")
    single = submit("scoring", {"business": {"name": "Bäckerei"}}, caller="t", subscriber="acme", reference="single")
    return mine, other, single


PATHS = ["/tasks/", "/batches/", "/kinds/"]


@pytest.mark.parametrize("path", PATHS)
def test_without_a_key_nothing_is_shown(db, path):
    assert APIClient().get(f"/api/v1{path}").status_code == 401


def test_scopes(client_with, rows):
    mine, _, single = rows
    reader, writer = client_with("tasks:read"), client_with("events:write")
    assert reader.get("/api/v1/tasks/").status_code == 200
    assert writer.get("/api/v1/tasks/").status_code == 403
    for path in ("/tasks/", "/batches/", f"/tasks/{single.pk}/cancel/", f"/batches/{mine.pk}/cancel/"):
        assert reader.post(f"/api/v1{path}", {}, format="json").status_code == 403


def test_a_bound_key_sees_only_its_subscriber(client_with, rows):
    mine, other, _ = rows
    bound = client_with("tasks:read", "tasks:write", subscriber="acme")
    assert {row["subscriber"] for row in bound.get("/api/v1/tasks/").json()["results"]} == {"acme"}
    assert [row["id"] for row in bound.get("/api/v1/batches/").json()["results"]] == [str(mine.pk)]
    foreign = other.tasks.get()
    for path in (f"/tasks/{foreign.pk}/", f"/tasks/{foreign.pk}/timeline/", f"/batches/{other.pk}/tasks/"):
        assert bound.get(f"/api/v1{path}").status_code == 404
    for path in (f"/tasks/{foreign.pk}/cancel/", f"/tasks/{foreign.pk}/redrive/", f"/batches/{other.pk}/cancel/"):
        assert bound.post(f"/api/v1{path}", {}, format="json").status_code == 404
    body = {"kind": "map_search", "input": SEARCH}
    assert bound.post("/api/v1/tasks/", body, format="json").json()["subscriber"] == "acme"
    refused = bound.post("/api/v1/tasks/", {**body, "subscriber": "umbrella"}, format="json")
    assert refused.status_code == 403


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 7),
        ("kind=scoring", 1),
        ("state=queued", 7),
        ("state=succeeded&state=dead_letter", 0),
        ("final=true", 0),
        ("final=false", 7),
        ("reference=single", 1),
        ("subscriber=umbrella", 1),
        ("created_before=2001-01-01T00:00:00Z", 0),
    ],
)
def test_filters(client, rows, query, count):
    assert len(client.get(f"/api/v1/tasks/?{query}").json()["results"]) == count


@pytest.mark.parametrize("query", ["state=flying", "batch=x", "created_after=soon"])
def test_a_wrong_filter_is_a_400(client, rows, query):
    assert client.get(f"/api/v1/tasks/?{query}").status_code == 400


@pytest.mark.parametrize("pk", ["0", "999999999999999999", "9" * 30, "x"])
def test_an_unknown_id_is_a_404(client, db, pk):
    assert client.get(f"/api/v1/tasks/{pk}/").status_code == 404


def test_lists_take_a_constant_number_of_queries(client, rows, django_assert_num_queries):
    client.get("/api/v1/tasks/")
    for path, count in (("/tasks/", 2), ("/batches/", 2), (f"/batches/{rows[0].pk}/tasks/", 3), ("/kinds/", 2)):
        with django_assert_num_queries(count):
            assert client.get(f"/api/v1{path}").status_code == 200


def test_a_console_user_sees_payloads_only_with_the_permission(rows):
    user = User.objects.create_user("op", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    client = APIClient()
    client.force_login(user)
    assert client.get(f"/api/v1/tasks/{rows[2].pk}/").json()["input"] is None
    user.user_permissions.add(Permission.objects.get(codename="view_payload_task"))
    client = APIClient()
    client.force_login(User.objects.get(pk=user.pk))
    assert client.get(f"/api/v1/tasks/{rows[2].pk}/").json()["input"] == {"business": {"name": "Bäckerei"}}


def test_kinds_show_schema_and_policy(client, django_assert_num_queries):
    found = {row["kind"]: row for row in client.get("/api/v1/kinds/").json()["results"]}
    assert set(found) == set(kinds.KINDS)
    assert found["map_search"]["input_schema"]["required"] == ["trade", "place"]
    assert found["map_search"]["policy"]["provider"] == "sandbox"
    assert found["batch_report"]["policy"]["provider"] == ""
    assert client.get("/api/v1/kinds/email-generation/").json()["kind"] == "email_generation"
    assert client.get("/api/v1/kinds/juggling/").status_code == 404


def test_openapi_types_each_kind(client):
    from drf_spectacular.generators import SchemaGenerator

    schemas = SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]
    assert schemas["NewTaskRequest"]["discriminator"]["propertyName"] == "kind"
    assert set(schemas["NewTaskRequest"]["discriminator"]["mapping"]) == set(kinds.KINDS)
    assert schemas["MapSearchTaskRequest"]["properties"]["input"]["required"] == ["trade", "place"]
    assert schemas["ScoringBatchItemRequest"]["properties"]["input"]["required"] == ["business"]


def test_of_a_very_long_story_the_latest_steps_are_told(client, make_task, monkeypatch, django_assert_max_num_queries):
    """A redrive allows any number of attempts: the answer stays within bounds, and so does what is read."""
    monkeypatch.setattr(timeline, "STEPS_SHOWN", 3)
    task = make_task()
    Transition.objects.bulk_create(
        Transition(task=task, from_state="running", to_state="retrying", cause="poll", attempt=n) for n in range(1, 6)
    )
    ExternalJob.objects.bulk_create(
        ExternalJob(task=task, provider="sandbox", attempt=n, job_id=f"j{n}", state="lost") for n in range(1, 6)
    )
    with django_assert_max_num_queries(4):
        told = timeline.entries(task)
    assert [entry.fields["attempt"] for entry in told if entry.type == "transition"] == [3, 4, 5]
    assert [entry.fields["job_id"] for entry in told if entry.type == "external_job"] == ["j3", "j4", "j5"]
    assert len(client.get(f"/api/v1/tasks/{task.pk}/timeline/").json()) == 6
