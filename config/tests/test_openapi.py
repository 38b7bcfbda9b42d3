"""The OpenAPI document says what the API does: also how it refuses."""

import pytest
from django.test import Client


@pytest.fixture(scope="module")
def document():
    return Client().get("/api/v1/schema/?format=json").json()


def test_every_operation_tells_its_refusals(document):
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            assert list(answers["default"]["content"]) == ["application/problem+json"], (method, path)
            for status, answer in answers.items():
                for media_type, body in answer.get("content", {}).items():
                    is_problem = body["schema"].get("$ref", "").endswith("/ProblemDocument")
                    assert is_problem == (media_type == "application/problem+json"), (method, path, status)


def test_lists_are_told_in_their_frame(document):
    for path in ("tasks", "kinds", "deliveries", "operations"):
        shape = document["paths"][f"/api/v1/{path}/"]["get"]["responses"]["200"]["content"]["application/json"][
            "schema"
        ]
        frame = document["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
        assert {"next", "previous", "results"} <= set(frame["properties"]), path


def test_no_secret_and_no_way_of_the_machine_is_in_it(document, settings):
    text = str(document)
    for value in (settings.SECRET_KEY, *settings.MASTER_KEYS, str(settings.BASE_DIR)):
        assert value not in text


def test_it_is_made_once_whoever_asks_and_however_often(monkeypatch):
    from drf_spectacular.generators import SchemaGenerator

    from kernel.api import schema

    made = []
    making = SchemaGenerator.get_schema

    def counted(self, *args, **kwargs):
        made.append(1)
        return making(self, *args, **kwargs)

    monkeypatch.setattr(SchemaGenerator, "get_schema", counted)
    schema._document.clear()
    schema._forms.clear()
    answers = [Client().get(f"/api/v1/schema/?format={form}") for form in ("json", "yaml", "json")]
    assert made == [1]
    assert answers[0].content == answers[2].content
    assert answers[0]["ETag"] != answers[1]["ETag"]


def test_whoever_has_it_is_told_that_nothing_changed():
    first = Client().get("/api/v1/schema/?format=json")
    again = Client().get("/api/v1/schema/?format=json", headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])


def test_it_is_the_document_that_the_command_writes(document):
    from drf_spectacular.generators import SchemaGenerator

    assert set(document["paths"]) == set(SchemaGenerator().get_schema(request=None, public=True)["paths"])
