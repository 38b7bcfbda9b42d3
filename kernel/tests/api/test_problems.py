"""Every refusal is a problem with a stable code; our own faults stay faults."""

from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions, serializers

from kernel.api.lists import CountedListField
from kernel.api.problems import BadInput, as_problem, flatten, problem_response


def test_nested_field_errors_become_dotted_paths():
    error = exceptions.ValidationError({"tasks": [{}, {"input": {"place": ["Too long."]}}], "kind": ["Unknown."]})
    assert [(row["field"], row["detail"]) for row in flatten(error.detail)] == [
        ("tasks.1.input.place", "Too long."),
        ("kind", "Unknown."),
    ]


def test_a_problem_has_type_title_status_code_and_detail():
    response = problem_response(
        BadInput("kind: Unknown.", errors=[{"field": "kind", "code": "x", "detail": "Unknown."}])
    )
    assert response.data == {
        "type": "urn:roundtrip:problem:invalid",
        "title": "The request has errors",
        "status": 400,
        "code": "invalid",
        "detail": "kind: Unknown.",
        "errors": [{"field": "kind", "code": "x", "detail": "Unknown."}],
    }


def test_statuses_of_the_usual_refusals():
    found = {
        type(error).__name__: as_problem(error).status
        for error in (
            Http404(),
            PermissionDenied(),
            exceptions.NotAuthenticated(),
            exceptions.Throttled(wait=3),
            exceptions.MethodNotAllowed("PUT"),
            OperationalError("gone"),
        )
    }
    assert found == {
        "Http404": 404,
        "PermissionDenied": 403,
        "NotAuthenticated": 401,
        "Throttled": 429,
        "MethodNotAllowed": 405,
        "OperationalError": 503,
    }


def test_waiting_times_are_told():
    assert as_problem(exceptions.Throttled(wait=3)).headers["Retry-After"] == "3"
    assert as_problem(OperationalError("gone")).headers["Retry-After"] == "5"


def test_our_own_faults_are_not_dressed_up():
    assert as_problem(ZeroDivisionError()) is None


def test_a_hundred_errors_are_listed_and_all_are_counted():
    error = exceptions.ValidationError({"ids": {n: ["Not a number."] for n in range(100_000)}})
    answer = problem_response(as_problem(error)).data
    assert (len(answer["errors"]), answer["error_count"]) == (100, 100_000)
    assert answer["detail"] == "ids.0: Not a number. (99900 more errors are not listed.)"
    few = problem_response(as_problem(exceptions.ValidationError({"a": ["No."]}))).data
    assert "error_count" not in few and few["detail"] == "a: No."


def test_what_callers_send_does_not_come_back_whole():
    error = exceptions.ValidationError({"x" * 100_000: ["y" * 100_000]})
    answer = problem_response(as_problem(error)).data
    assert len(str(answer)) < 4_000 and answer["errors"][0]["field"].startswith("xxx")


def test_a_list_beyond_its_length_is_refused_before_its_entries_are_judged():
    judged = []

    class Entry(serializers.CharField):
        def to_internal_value(self, data):
            judged.append(data)
            return data

    class Asked(serializers.Serializer):
        ids = CountedListField(child=Entry(), max_length=3)

    asked = Asked(data={"ids": ["x"] * 4})
    assert not asked.is_valid() and not judged
    assert asked.errors["ids"][0].code == "max_length"
    assert Asked(data={"ids": ["x"] * 3}).is_valid()
