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
