"""The polling fallback and the tokens: the same snapshot as the socket's, with an ETag; nothing for strangers."""

import pytest
from django.test import Client

from console.live import shared_reads
from console.tests.conftest import make_batch
from tasks.models import Batch

pytestmark = pytest.mark.django_db


def client_of(token):
    return Client(headers={"authorization": f"Bearer {token}"})


def test_the_same_snapshot_with_an_etag(key):
    batch = make_batch(["running"])
    client = client_of(key)
    first = client.get("/api/v1/live/", {"topic": f"batch:{batch.pk}"})
    assert first.json()["topic"] == f"batch:{batch.pk}"
    assert first.json()["data"]["counts"]["running"] == 1
    etag = first["ETag"]
    again = client.get("/api/v1/live/", {"topic": f"batch:{batch.pk}"}, headers={"if-none-match": etag})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)
    Batch.objects.filter(pk=batch.pk).update(total=9)
    shared_reads._recent.clear()
    changed = client.get("/api/v1/live/", {"topic": f"batch:{batch.pk}"}, headers={"if-none-match": etag})
    assert changed.status_code == 200
    assert changed.json()["version"] > first.json()["version"]


def test_many_who_poll_share_a_read(key, django_assert_num_queries):
    make_batch(["running"])
    client = client_of(key)
    client.get("/api/v1/live/", {"topic": "alerts"})
    with django_assert_num_queries(1):  # the key
        client.get("/api/v1/live/", {"topic": "alerts"})


@pytest.mark.parametrize(
    ("topic", "status", "code"),
    [("", 400, "unknown_topic"), ("tasks?x=1", 400, "bad_filter"), ("batch:1", 404, "not_found")],
)
def test_refusals_are_problems(key, topic, status, code):
    answer = client_of(key).get("/api/v1/live/", {"topic": topic})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_another_subscribers_batch_is_not_found_and_the_whole_is_forbidden(bound_key):
    batch = make_batch(["running"], subscriber="other")
    client = client_of(bound_key)
    assert client.get("/api/v1/live/", {"topic": f"batch:{batch.pk}"}).status_code == 404
    assert client.get("/api/v1/live/", {"topic": "stats"}).status_code == 403


def test_a_live_token_is_for_permitted_topics_and_a_short_time(key, bound_key):
    def issue(token, **body):
        return client_of(token).post("/api/v1/live-tokens/", body, content_type="application/json")

    answer = issue(key, topics=["batch:1", "tasks?state=queued&kind=x"], ttl=60)
    assert answer.status_code == 201
    assert answer.json()["topics"] == ["batch:1", "tasks?kind=x&state=queued"]
    assert answer.json()["token"].startswith("rtl_")
    assert issue(bound_key, topics=["stats"]).json()["code"] == "other_subscriber"
    assert issue(key, topics=["nothing"]).json()["code"] == "unknown_topic"
    assert issue(key, topics=["batch:1"], ttl=99999).status_code == 400


def test_a_live_token_ends_with_its_time_and_with_its_key(key):
    from datetime import timedelta

    from django.utils import timezone

    from console.live import viewers
    from kernel.models import ApiKey

    now = timezone.now()
    token, until = viewers.issue_token(viewers.of_token(key, now), ["batch:1"], timedelta(minutes=5), now)
    assert viewers.of_token(token, now).topics == {"batch:1"}
    assert viewers.of_token(token, until) is None
    assert viewers.of_token(token[:-2], now) is None
    ApiKey.objects.update(revoked_at=now)
    assert viewers.of_token(token, now) is None
