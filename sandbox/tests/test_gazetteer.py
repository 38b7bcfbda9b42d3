"""Places by name in any script, and the example file that the product is shown with."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from sandbox.provider import map_search
from sandbox.provider.gazetteer import Gazetteer, exact, folded, world

EXAMPLES = Path(__file__).parents[2] / "examples" / "searches.csv"
TOKYO = (35.6895, 139.69171)


@pytest.fixture(scope="module")
def places() -> Gazetteer:
    return world().result()


def kilometres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Great-circle distance."""
    (la, lo), (lb, lp) = [tuple(map(math.radians, point)) for point in (a, b)]
    h = math.sin((lb - la) / 2) ** 2 + math.cos(la) * math.cos(lb) * math.sin((lp - lo) / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(h))


@pytest.mark.parametrize(
    ("name", "found", "country"),
    [
        ("Ålesund", "Ålesund", "NO"),
        ("alesund", "Ålesund", "NO"),
        ("ZÜRICH", "Zürich", "CH"),
        ("Zu\u0308rich", "Zürich", "CH"),
        ("Lodz", "Łódź", "PL"),
        ("sao  paulo", "São Paulo", "BR"),
        ("東京", "Tokyo", "JP"),
        ("東京都新宿区", "Tokyo", "JP"),
        ("ＴＯＫＹＯ", "Tokyo", "JP"),
        ("大阪市", "Osaka", "JP"),
        ("서울특별시", "Seoul", "KR"),
        ("القاهرة", "Cairo", "EG"),
        ("Москва", "Moscow", "RU"),
        ("Αθηνα", "Athens", "GR"),
        ("תל אביב", "Tel Aviv", "IL"),
        ("मुंबई", "Mumbai", "IN"),
        ("กรุงเทพฯ", "Bangkok", "TH"),
        ("L’Aquila", "L'Aquila", "IT"),
        ("Wien, Österreich", "Vienna", "AT"),
        ("Paris, Texas", "Paris", "US"),
        ("Springfield, Illinois, USA", "Springfield", "US"),
    ],
)
def test_a_place_is_found_in_its_own_writing(places: Gazetteer, name: str, found: str, country: str) -> None:
    city = places.find(name)
    assert city is not None
    assert (city.name, city.country) == (found, country)


def test_the_larger_one_is_meant_unless_a_country_says_otherwise(places: Gazetteer) -> None:
    assert places.find("Paris").country == "FR"
    assert places.find("Paris", "us").country == "US"
    assert places.find("Córdoba", "ES").country == "ES"
    assert places.find("Paris", "JP") is None


def test_a_citys_own_name_beats_a_larger_citys_former_one(places: Gazetteer) -> None:
    assert places.find("York").country == "GB"  # Toronto was York once


@pytest.mark.parametrize("nonsense", ["", " ", ",", "Xyzzyville", "架空町九丁目", "💥", "-", "Ys"])
def test_what_is_no_place_is_not_found(places: Gazetteer, nonsense: str) -> None:
    assert places.find(nonsense) is None


def test_keys() -> None:
    assert exact(" St.  Gallen ") == "st gallen"
    assert folded(exact("Łódź")) == "lodz"
    assert folded(exact("मुंबई")) == exact("मुंबई")  # vowel signs are no decoration


def test_the_same_search_gives_the_same_places_near_the_city(places: Gazetteer) -> None:
    query = {"trade": "寿司屋", "place": "東京", "limit": 50}
    result = map_search.search(query, places)
    assert result == map_search.search(dict(reversed(query.items())), places)
    assert result["place"] == {
        "name": "Tokyo",
        "country": "JP",
        "lat": TOKYO[0],
        "lon": TOKYO[1],
        "population": 9733276,
    }
    assert 5 <= len(result["places"]) <= 50
    for found in result["places"]:
        assert kilometres((found["lat"], found["lon"]), TOKYO) < 20
        assert found["category"] == "寿司屋"
        assert 1 <= found["rating"] <= 5
        assert isinstance(found["reviews"], int) and 0 <= found["reviews"] < 10_000
        assert found["phone"].startswith("+81 ")
    assert len({found["id"] for found in result["places"]}) == len(result["places"])


def test_limit_is_a_limit(places: Gazetteer) -> None:
    assert len(map_search.search({"trade": "Bäcker", "place": "Zürich", "limit": 3}, places)["places"]) == 3
    assert len(map_search.search({"trade": "Bäcker", "place": "Zürich"}, places)["places"]) <= 10


def test_an_unknown_place_is_an_answer(places: Gazetteer) -> None:
    result = map_search.search({"trade": "Bäcker", "place": "Xyzzyville", "country": "ch"}, places)
    assert result["places"] == []
    assert result["place"] is None
    assert result["note"] == "No place called “Xyzzyville” is known in CH."


def test_the_example_searches_are_real(places: Gazetteer) -> None:
    raw = EXAMPLES.read_bytes()
    assert not raw.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(raw.decode("utf-8").splitlines()))
    assert list(rows[0]) == ["trade", "place", "country", "limit"]
    assert len(rows) >= 240
    assert all(1 <= len(row["trade"]) <= 100 and 1 <= len(row["place"]) <= 200 for row in rows)
    assert all(not row["limit"] or 1 <= int(row["limit"]) <= 50 for row in rows)
    known = [row for row in rows if places.find(row["place"], row["country"])]
    assert len(known) >= 0.98 * len(rows)
    tokyo = [row for row in rows if row["place"] == "東京"]
    assert len(tokyo) >= 5
    for row in tokyo:
        city = places.find(row["place"], row["country"])
        assert kilometres((city.latitude, city.longitude), TOKYO) < 50
