"""A repeated create gives the first answer; a changed one is refused; twins wait for each other."""

import json
import threading
import uuid

import pytest
from django.db import connection, connections
from django.test import override_settings
from django.urls import path
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from kernel.api.idempotency import REPLAYED, idempotent
from kernel.api.problems import BadInput
from kernel.auth import HasScope, Scope, create_key
from kernel.models import IdempotencyRecord

made: list[dict] = []
slow = threading.Event()


class Create(APIView):
    permission_classes = [HasScope(Scope.EVENTS_WRITE)]

    @idempotent
    def post(self, request):
        if request.data.get("refuse"):
            raise BadInput("No.", errors=[{"field": "refuse", "code": "invalid", "detail": "No."}])
        if request.data.get("wait"):
            slow.wait(5)
        made.append(request.data)
        return Response({"number": len(made)}, status=202)


urlpatterns = [path("create/", Create.as_view()), path("create", Create.as_view())]
pytestmark = pytest.mark.urls(__name__)


@pytest.fixture(autouse=True)
def _nothing_made():
    made.clear()
    slow.clear()


@pytest.fixture
def client(db):
    _, token = create_key("caller", [Scope.EVENTS_WRITE])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def post(client, body, key=None):
    headers = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
    return client.post("/create/", json.dumps(body), content_type="application/json", **headers)


def test_an_address_with_and_without_its_slash_is_one(client):
    first = post(client, {"a": 1}, "k")
    again = client.post("/create", '{"a": 1}', content_type="application/json", HTTP_IDEMPOTENCY_KEY="k")
    assert (first.json(), again.json(), again[REPLAYED], len(made)) == ({"number": 1}, {"number": 1}, "true", 1)


def test_the_same_key_and_body_run_once_and_answer_twice(client):
    first, second = post(client, {"a": 1}, "k"), post(client, {"a": 1}, "k")
    assert (first.status_code, first.json()) == (202, {"number": 1})
    assert (second.status_code, second.json()) == (202, {"number": 1})
    assert second.headers[REPLAYED] == "true"
    assert REPLAYED not in first.headers
    assert len(made) == 1


def test_another_body_under_the_same_key_is_a_422_that_does_nothing(client):
    post(client, {"a": 1}, "k")
    refused = post(client, {"a": 2}, "k")
    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert len(made) == 1


def test_whitespace_makes_another_body(client):
    post(client, {"a": 1}, "k")
    refused = client.post("/create/", '{"a":  1}', content_type="application/json", HTTP_IDEMPOTENCY_KEY="k")
    assert refused.status_code == 422


def test_a_refused_request_is_not_kept(client):
    assert post(client, {"refuse": True}, "k").status_code == 400
    assert IdempotencyRecord.objects.count() == 0
    assert post(client, {"a": 1}, "k").status_code == 202


def test_keys_of_two_callers_do_not_meet(client):
    _, token = create_key("other", [Scope.EVENTS_WRITE])
    other = APIClient()
    other.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    post(client, {"a": 1}, "k")
    assert post(other, {"a": 2}, "k").status_code == 202
    assert len(made) == 2


def test_after_24_hours_the_key_is_new_again(client):
    post(client, {"a": 1}, "k")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE kernel_idempotencyrecord SET created_at = now() - interval '25 hours'")
    assert post(client, {"a": 2}, "k").status_code == 202
    assert len(made) == 2


@pytest.mark.parametrize("key", ["x" * 256, "a\tb"])
def test_a_key_that_cannot_be_stored_is_refused_with_words(client, key):
    answer = post(client, {"a": 1}, key)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_idempotency_key")
    assert made == []


@pytest.mark.django_db(transaction=True)
@override_settings(ROOT_URLCONF=__name__)
def test_a_twin_in_progress_is_waited_for_then_told_409():
    _, token = create_key("caller", [Scope.EVENTS_WRITE])
    key, answers = uuid.uuid4().hex, []

    def call():
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        answers.append(post(client, {"wait": True}, key))
        connections.close_all()

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads_left = [thread for thread in threads if not thread.join(3.5) and thread.is_alive()]
    slow.set()
    for thread in threads_left:
        thread.join(10)
    assert sorted(answer.status_code for answer in answers) == [202, 409]
    assert len(made) == 1
