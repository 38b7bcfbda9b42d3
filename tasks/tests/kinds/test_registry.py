"""Kinds: what goes in, and what may come out."""

import pytest

from tasks import kinds
from tasks.errors import InvalidInput, NoProvider, UnknownKind
from tasks.kinds import acceptance
from tasks.submit import submit

BUSINESS = {"name": "Bar"}


def errors_of(kind: str, given: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        kinds.get(kind).checked(given)
    return sorted((row["field"], row["code"]) for row in caught.value.errors)


@pytest.mark.parametrize(
    ("kind", "given", "wrong"),
    [
        ("map_search", {}, [("place", "required"), ("trade", "required")]),
        ("map_search", [], [("input", "wrong_type")]),
        ("map_search", {"trade": "a", "place": "  "}, [("place", "bad_format")]),
        ("map_search", {"trade": "a" * 101, "place": "b"}, [("trade", "too_long")]),
        ("map_search", {"trade": "a", "place": "b", "limit": 51}, [("limit", "too_large")]),
        ("map_search", {"trade": "a", "place": "b", "limit": True}, [("limit", "wrong_type")]),
        ("map_search", {"trade": "a", "place": "b", "limit": "5"}, [("limit", "wrong_type")]),
        ("map_search", {"trade": "a", "place": "b", "country": "NOR"}, [("country", "bad_format")]),
        ("map_search", {"trade": "a", "place": "b", "country": "NO\n"}, [("country", "bad_format")]),
        ("email_generation", {"business": BUSINESS, "language": "no\n"}, [("language", "bad_format")]),
        ("batch_report", {"batch": "12\n"}, [("batch", "bad_format")]),
        ("map_search", {"trade": "a", "place": "b", "x": 1, "y": 2}, [("x", "unknown_field"), ("y", "unknown_field")]),
        ("map_search", {"trade": "a\x00", "place": "b"}, [("trade", "bad_character")]),
        ("map_search", {"trade": "a\ud800", "place": "b"}, [("trade", "bad_character")]),
        ("email_generation", {"business": {}}, [("business.name", "required")]),
        ("email_generation", {"business": BUSINESS, "tone": "rude"}, [("tone", "not_a_choice")]),
        ("email_generation", {"business": {"name": "a", "rating": 6}}, [("business.rating", "too_large")]),
        ("scoring", {"business": BUSINESS, "threshold": 101}, [("threshold", "too_large")]),
        ("scoring", {"business": BUSINESS, "email": {"subject": 1}}, [("email.subject", "wrong_type")]),
        ("batch_report", {"batch": "12; drop"}, [("batch", "bad_format")]),
    ],
)
def test_wrong_inputs_are_named_by_field(kind: str, given: object, wrong: list[tuple[str, str]]) -> None:
    assert errors_of(kind, given) == wrong


def test_input_is_stored_with_defaults_and_without_empty_fields() -> None:
    given = {"trade": "bakery", "place": "Ålesund", "country": "", "limit": 5.0}
    assert kinds.get("map-search").checked(given) == {"trade": "bakery", "place": "Ålesund", "limit": 5}
    assert kinds.get("map_search").checked({"trade": "a", "place": "東京"})["limit"] == 10


def test_a_csv_row_becomes_an_input() -> None:
    row = {"business.name": "Bar", "business.rating": "4.5", "business.reviews": "x", "tone": "", "language": " no "}
    made = kinds.get("email_generation").from_texts(row)
    assert made == {"business": {"name": "Bar", "rating": 4.5, "reviews": "x"}, "language": "no"}
    assert kinds.get("map_search").from_texts({"trade": "a", "place": "b", "limit": "7"})["limit"] == 7


def test_unknown_kind_says_which_there_are() -> None:
    with pytest.raises(UnknownKind, match=", ".join(kinds.KINDS)):
        kinds.get("nonsense")


def test_without_a_provider_a_submission_says_what_to_do(db: None, settings) -> None:
    settings.SANDBOX_PROVIDER_URL = ""
    with pytest.raises(NoProvider, match="Configure one"):
        submit("scoring", {"business": BUSINESS}, caller="t")
    assert submit("batch_report", {"batch": "1"}, caller="t").pk


def test_production_offers_no_sandbox(db: None, settings) -> None:
    settings.SANDBOX_PROVIDER_URL, settings.PRODUCTION = "http://127.0.0.1:1", True
    with pytest.raises(NoProvider):
        submit("scoring", {"business": BUSINESS}, caller="t")


PLACE = {"name": "Bar", "lat": 1.5, "lon": -179}


@pytest.mark.parametrize(
    ("result", "is_good"),
    [
        ({"places": [PLACE]}, True),
        ({"places": []}, True),
        ({"places": None}, False),
        ([], False),
        ({"places": [PLACE] * 11}, False),
        ({"places": [{**PLACE, "lat": 91}]}, False),
        ({"places": [{**PLACE, "lon": True}]}, False),
        ({"places": [{**PLACE, "lat": float("nan")}]}, False),
        ({"places": [{**PLACE, "name": " "}]}, False),
    ],
)
def test_map_search_results(result: object, is_good: bool) -> None:
    assert (acceptance.map_search({"limit": 10}, result) == "") is is_good


@pytest.mark.parametrize(
    ("subject", "body", "is_good"),
    [
        ("Hi Bar", "Dear Bar team", True),
        ("It costs $100", "50% off, {not a field!}, 100 % sure", True),
        ("Hi $avvy {null}", "Dear $avvy {null} team", True),  # that is the business's own name
        ("Hi {{name}}", "x", False),
        ("Hi", "Dear {first_name}", False),
        ("Hi", "Dear ${name}", False),
        ("Hi", "Dear $name", False),
        ("Hi", "Dear [Your Name]", False),
        ("Hi", "", False),
        ("", "x", False),
        ("Two\nlines", "x", False),
    ],
)
def test_email_results(subject: str, body: str, is_good: bool) -> None:
    given = {"business": {"name": "$avvy {null}"}}
    assert (acceptance.email_generation(given, {"subject": subject, "body": body}) == "") is is_good


@pytest.mark.parametrize(("score", "is_good"), [(0, True), (100, True), (55.5, True), (101, False), ("9", False)])
def test_scores(score: object, is_good: bool) -> None:
    assert (acceptance.scoring({}, {"score": score}) == "") is is_good
