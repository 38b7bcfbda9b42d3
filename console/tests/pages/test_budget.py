"""A page or list that takes too long to read: ended, and told with what to ask instead. Writes have no such bound."""

import pytest
from django.db import connection
from django.test import Client

from console.pages import views
from delivery.api.deliveries import DeliveryViews
from tasks.models import Batch

pytestmark = pytest.mark.django_db(transaction=True)


def _sleep(*_args, **_kwargs):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


@pytest.fixture(autouse=True)
def impatient(settings):
    settings.READ_SECONDS = 0.05


def test_a_page_is_a_503_that_says_what_to_do(operator, monkeypatch):
    monkeypatch.setattr(views, "batch_row", _sleep)
    Batch.objects.create(kind="map_search", correlation_id="c" * 32)
    client = Client()
    client.force_login(operator)
    answer = client.get("/batches/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "30")
    assert "query_too_slow" in answer.content.decode()
    assert "ask for less: a list is quick by state" in answer.content.decode()


def test_an_api_list_is_a_problem_that_names_the_quick_filters(key, monkeypatch):
    monkeypatch.setattr(DeliveryViews, "paginate_queryset", _sleep)
    answer = Client(headers={"authorization": f"Bearer {key}"}).get("/api/v1/deliveries/")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "query_too_slow")
    assert "endpoint" in problem["detail"] and "state" in problem["detail"]
    assert "status_code" not in problem["detail"] and "is_replay" not in problem["detail"]  # no index leads with them


def test_a_write_goes_on_however_long_it_reads(key, monkeypatch):
    def look(*_args, **_kwargs):
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            raise RuntimeError(cursor.fetchone()[0])

    monkeypatch.setattr(DeliveryViews, "initial", look)
    with pytest.raises(RuntimeError, match=r"^0$"):
        Client(headers={"authorization": f"Bearer {key}"}).post("/api/v1/deliveries/1/redrive/")
