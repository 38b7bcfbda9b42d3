"""The next batch from the results of one."""

import pytest
from django.utils import timezone

from tasks import kinds
from tasks.errors import BadBatch
from tasks.kinds.chaining import LINKS, next_items
from tasks.models import Batch, Task
from tasks.states import State

PLACE = {
    "id": "place_1",
    "name": "Piekarnia Nowak",
    "category": "bakery",
    "address": "ul. Długa 1",
    "place": "Łódź",
    "country": "PL",
    "lat": 51.7,
    "lon": 19.4,
    "rating": 4.5,
    "reviews": 12,
    "website": "",
    "phone": "+48 1",
}
BUSINESS = {
    "name": "Piekarnia Nowak",
    "category": "bakery",
    "place": "Łódź",
    "country": "PL",
    "rating": 4.5,
    "reviews": 12,
}


@pytest.fixture
def batch_of(db):
    def make(kind: str, *rows: tuple) -> Batch:
        batch = Batch.objects.create(kind=kind, total=len(rows), correlation_id="c" * 8)
        now = timezone.now()
        for position, (given, result, state) in enumerate(rows):
            Task.objects.create(
                kind=kind,
                batch=batch,
                position=position,
                input=given,
                result=result,
                state=state,
                run_at=now,
                next_attempt_at=now,
                finished_at=now,
            )
        return batch

    return make


def test_searches_give_an_email_for_every_business(batch_of):
    batch = batch_of(
        "map_search",
        ({}, {"places": [PLACE, {**PLACE, "name": "Zwei", "website": "https://zwei.example"}]}, State.SUCCEEDED),
        ({}, {"places": []}, State.SUCCEEDED),
        ({}, None, State.DEAD_LETTER),
        ({}, {"places": [PLACE]}, State.SUCCEEDED),
    )
    items = list(next_items(batch, "email_generation"))
    assert [item["input"]["business"]["name"] for item in items] == ["Piekarnia Nowak", "Zwei", "Piekarnia Nowak"]
    assert items[0]["input"] == {"business": BUSINESS}
    first, last = batch.tasks.order_by("position").first(), batch.tasks.order_by("position").last()
    assert [item["reference"] for item in items] == [f"{first.pk}.1", f"{first.pk}.2", str(last.pk)]
    for item in items:
        kinds.get("email_generation").checked(item["input"])


def test_emails_give_a_score_with_their_text(batch_of):
    email = {"subject": "Hello", "body": "Text", "language": "pl", "tone": "friendly", "business": "x"}
    batch = batch_of("email_generation", ({"business": BUSINESS, "tone": "formal"}, email, State.SUCCEEDED))
    (item,) = next_items(batch, "scoring")
    assert item["input"] == {"business": BUSINESS, "email": {"subject": "Hello", "body": "Text"}}
    kinds.get("scoring").checked(item["input"])


def test_what_cannot_be_chained_says_what_can(batch_of):
    with pytest.raises(BadBatch, match="email_generation or scoring"):
        list(next_items(batch_of("map_search"), "batch_report"))
    with pytest.raises(BadBatch, match="Nothing can be made"):
        list(next_items(batch_of("scoring"), "map_search"))


def test_every_link_is_between_kinds_that_exist():
    assert {name for pair in LINKS for name in pair} <= set(kinds.KINDS)
