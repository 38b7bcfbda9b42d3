"""Input rules of the kinds, e-mails and scores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox.provider import kinds
from sandbox.provider.emails import TEXTS

BUSINESS = {
    "name": "Bäckerei Weiß",
    "category": "Bäckerei",
    "place": "Zürich",
    "country": "CH",
    "rating": 4.6,
    "reviews": 120,
    "website": "https://weiss.example",
}


def result(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return asyncio.run(kinds.result_of(kind, kinds.checked(kind, value)))


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        ("map_search", None, "input"),
        ("map_search", {"place": "Zürich"}, "trade"),
        ("map_search", {"trade": "x" * 101, "place": "Zürich"}, "trade"),
        ("map_search", {"trade": "Bäcker", "place": " "}, "place"),
        ("map_search", {"trade": "Bäcker", "place": 7}, "place"),
        ("map_search", {"trade": "Bäcker", "place": "Zürich", "country": "CHE"}, "country"),
        ("map_search", {"trade": "Bäcker", "place": "Zürich", "limit": 51}, "limit"),
        ("map_search", {"trade": "Bäcker", "place": "Zürich", "limit": True}, "limit"),
        ("email_generation", {}, "business"),
        ("email_generation", {"business": {}}, "business.name"),
        ("email_generation", {"business": {"name": "A", "rating": "high"}}, "business.rating"),
        ("email_generation", {"business": BUSINESS, "tone": "rude"}, "tone"),
        ("email_generation", {"business": BUSINESS, "language": "german"}, "language"),
        ("scoring", {"business": BUSINESS, "threshold": 101}, "threshold"),
        ("scoring", {"business": BUSINESS, "email": "hello"}, "email"),
    ],
)
def test_bad_input_names_the_field(kind: str, value: Any, field: str) -> None:
    with pytest.raises(kinds.BadInput) as caught:
        kinds.checked(kind, value)
    assert caught.value.field == field


def test_empty_optional_fields_are_as_good_as_none() -> None:
    given = {"trade": "Bäcker", "place": "Zürich", "country": "", "limit": None}
    assert kinds.checked("map_search", given) == {"trade": "Bäcker", "place": "Zürich"}


def test_an_email_speaks_the_countrys_language_and_names_the_business() -> None:
    email = result("email_generation", {"business": BUSINESS, "tone": "formal"})
    assert email["language"] == "de"
    assert "Bäckerei Weiß" in email["body"]
    assert "Zürich" in email["body"]
    assert email["body"].startswith("Sehr geehrte Damen und Herren,")
    assert email == result("email_generation", {"business": BUSINESS, "tone": "formal"})


@pytest.mark.parametrize("language", list(TEXTS))
@pytest.mark.parametrize("tone", ["friendly", "formal"])
def test_every_template_is_filled_in(language: str, tone: str) -> None:
    for business in (BUSINESS, {"name": "Bäckerei Weiß"}):
        email = result("email_generation", {"business": business, "language": language, "tone": tone})
        assert email["language"] == language
        assert "Bäckerei Weiß" in email["subject"] + email["body"]
        assert "$" not in email["subject"] + email["body"]


def test_a_language_without_templates_is_said() -> None:
    email = result("email_generation", {"business": BUSINESS, "language": "sv"})
    assert email["language"] == "en"
    assert email["note"] == "No templates in “sv”; written in English."


def test_a_score_adds_up_from_its_reasons() -> None:
    email = result("email_generation", {"business": BUSINESS})
    score = result("scoring", {"business": BUSINESS, "email": email, "threshold": 90})
    assert score["score"] == 40 + sum(reason["points"] for reason in score["reasons"]) == 95
    assert [reason["rule"] for reason in score["reasons"]] == [
        "rating_high", "reviews_many", "website", "email_personal",
    ]  # fmt: skip
    assert score["passed"] is True


def test_a_poor_business_scores_low() -> None:
    score = result("scoring", {"business": {"name": "A", "rating": 2.0}, "email": {"subject": "", "body": "hi"}})
    assert score["score"] == 0
    assert score["passed"] is False
    assert score["threshold"] == 60
