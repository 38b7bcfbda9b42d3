"""From our inputs to a provider's, and from its places to ours: values keep their types, and nothing is guessed."""

from typing import Any

import pytest

from tasks.providers import mapping
from tasks.providers.base import ProviderRejected

GIVEN = {"trade": "bar", "place": "Łódź", "limit": 3, "business": {"name": "Ż", "rating": 4.5}}


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ({"q": "{trade} in {place}"}, {"q": "bar in Łódź"}),
        ({"max": "{limit}", "who": "{business.name}"}, {"max": 3, "who": "Ż"}),
        ({"all": "{business}"}, {"all": {"name": "Ż", "rating": 4.5}}),
        ({"country": "{country}", "list": ["{trade}", "{country}"]}, {"list": ["bar"]}),
        ({"text": "in {country}!"}, {"text": "in !"}),
        ({"text": "It is: {business}"}, {"text": 'It is: {"name": "Ż", "rating": 4.5}'}),
        ({"fixed": 7, "none": None, "json": '{"a": 1} {}'}, {"fixed": 7, "none": None, "json": '{"a": 1} {}'}),
        ({"whole": "{input}"}, {"whole": GIVEN}),
    ],
)  # fmt: skip
def test_a_template_is_filled(template: Any, made: Any) -> None:
    assert mapping.filled(template, GIVEN) == made


def test_without_a_template_the_input_goes_as_it_is_and_a_template_that_is_no_object_is_refused() -> None:
    assert mapping.given_input(None, GIVEN) == GIVEN
    for template in ("{trade}", ["{trade}"], 7, "{nothing}"):
        with pytest.raises(ProviderRejected, match="JSON object"):
            mapping.given_input(template, GIVEN)


GOOGLE = {
    "title": "Bar",
    "location": {"lat": 51.7, "lng": 19.4},
    "totalScore": 4.5,
    "reviewsCount": 12,
    "website": None,
}


def test_places_of_either_spelling_are_ours() -> None:
    other = {"name": "Bar", "latitude": "51.7", "longitude": 19.4, "rating": 4.5, "reviews": 12.0, "site": ""}
    ours = {"name": "Bar", "lat": 51.7, "lon": 19.4, "rating": 4.5, "reviews": 12}
    assert mapping.places([GOOGLE, other]) == ([ours, ours], "")


@pytest.mark.parametrize(
    "item",
    [
        None,
        7,
        {},
        {**GOOGLE, "title": ""},
        {**GOOGLE, "location": None},
        {**GOOGLE, "location": {"lat": 91, "lng": 0}},
        {**GOOGLE, "location": {"lat": float("nan"), "lng": 0}},
        {**GOOGLE, "location": {"lat": True, "lng": "west"}},
    ],
)
def test_what_is_no_place_is_left_out_and_said(item: Any) -> None:
    made, note = mapping.places([GOOGLE, item])
    assert len(made) == 1 and note == "1 place was left out: without a name or a position."


def test_the_options_may_say_where_a_field_lies() -> None:
    item = {"who": {"called": "Bar"}, "title": "no", "latitude": 1, "longitude": 2}
    assert mapping.places([item], {"name": "who.called"})[0][0]["name"] == "Bar"
    assert mapping.places([item, item], {"name": "nowhere"}) == (
        [],
        "2 places were left out: without a name or a position.",
    )


def test_what_is_of_the_wrong_type_is_no_value() -> None:
    odd = {**GOOGLE, "totalScore": 9, "reviewsCount": "many", "phone": {"a": 1}, "placeId": 5, "address": True}
    assert mapping.places([odd])[0] == [{"id": "5", "name": "Bar", "lat": 51.7, "lon": 19.4}]
