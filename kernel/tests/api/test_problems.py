"""Every refusal is a problem with a stable code; our own faults stay faults."""

from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions

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
