"""The OpenAPI document says what the API does: also how it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from jsonschema import Draft202012Validator

from config.documents.answers import SENT_HEADERS
from config.openapi import in_the_older_dialect
from delivery.policy.catalogue import CATALOGUE
from tasks.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def document():
    return Client().get("/api/v1/schema/?format=json").json()


@pytest.fixture(scope="module")
def older():
    return Client().get("/api/v1/schema/?format=json&openapi=3.0").json()


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
    schema._documents.clear()
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


def test_every_operation_has_a_summary_and_a_tag_that_is_explained(document):
    tags = {tag["name"] for tag in document["tags"] if tag["description"]}
    used = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            used |= set(operation["tags"])
    assert used == tags - {"webhooks"}


def test_it_says_where_it_is_served(document, settings):
    assert [server["url"] for server in document["servers"]] == [settings.PUBLIC_BASE_URL or "/"]


def test_every_type_that_is_sent_is_a_webhook_with_its_headers_its_payload_and_what_answers_mean(document):
    assert set(document["webhooks"]) == set(CATALOGUE)
    for name, one in CATALOGUE.items():
        sent = document["webhooks"][name]["post"]
        assert [header["name"] for header in sent["parameters"]] == list(SENT_HEADERS)
        reference = sent["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        schema = document["components"]["schemas"][reference.rpartition("/")[2]]
        assert {key: schema[key] for key in one.schema} == one.schema
        assert not list(Draft202012Validator(schema).iter_errors(schema["examples"][0]))
        answers = sent["responses"]
        assert {"2XX", "3XX", "408", "410", "425", "429", "4XX", "5XX"} <= set(answers)
        assert "disabled" in answers["410"]["description"]


def test_generators_that_know_3_0_only_get_the_same_operations_in_3_0(document, older):
    assert document["openapi"].startswith("3.1") and older["openapi"].startswith("3.0")
    assert older["paths"].keys() == document["paths"].keys()
    assert "webhooks" not in older
    for words in ('"null"', '"const"', "$schema"):
        assert words not in str(older).replace("'", '"'), words


def test_an_unknown_dialect_is_refused():
    answer = Client().get("/api/v1/schema/?format=json&openapi=2.0")
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_version")


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ({"type": ["string", "null"], "maxLength": 3}, {"type": "string", "maxLength": 3, "nullable": True}),
        ({"const": "scoring"}, {"enum": ["scoring"]}),
        ({"properties": {"nullable": {"type": "boolean"}}}, {"properties": {"nullable": {"type": "boolean"}}}),
        ({"nullable": True, "readOnly": True}, {"readOnly": True}),
    ],
)
def test_a_schema_in_the_older_dialect(newer, older):
    assert in_the_older_dialect(newer) == older


def test_no_two_enums_have_a_constant_of_the_same_name(document):
    """Go's constants are a whole package's."""
    names = [name for one in document["components"]["schemas"].values() for name in one.get("x-enum-varnames", ())]
    assert len(names) > 80
    assert sorted(names) == sorted(set(names))


def test_each_kind_has_its_own_request_type_told_apart_by_its_name(document):
    schemas = document["components"]["schemas"]
    mapping = schemas["NewTaskRequest"]["discriminator"]["mapping"]
    assert set(mapping) == set(KINDS)
    for name, reference in mapping.items():
        of_kind = schemas[reference.rpartition("/")[2]]["properties"]
        assert of_kind["kind"]["const"] == name
        assert of_kind["input"]["properties"].keys() == KINDS[name].schema["properties"].keys()


ANOTHER_KIND = """
import os
import django
django.setup()
from tasks.kinds import KINDS, Kind, acceptance, schemas
KINDS["another_kind"] = Kind("another_kind", "Another kind", schemas.SCORING, acceptance.scoring)
from django.core.management import call_command
from config.management.commands.document import reference
from django.test import Client
call_command("spectacular", "--fail-on-warn", "--file", os.devnull)  # what `check --deploy` asks
document = Client().get("/api/v1/schema/?format=json").json()
assert "AnotherKindTaskRequest" in document["components"]["schemas"]
assert "another_kind" in document["components"]["schemas"]["KindName"]["enum"]
assert "`another_kind`" in reference()
"""


def test_a_kind_is_added_by_adding_it_to_the_kinds():
    """In a process of its own, before anything has looked at them: the document takes it up, and no check warns."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "ROUNDTRIP_ENV": "test"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ANOTHER_KIND],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_may_be_anything_may_be_null_too(document):
    """ "One of anything and null" refuses null, which is both."""
    assert "{'oneOf': [{}" not in str(document)
